/**
 * Asks again soon after something happened: once for many events, less often while the answers are slow, and always once
 * more after the last event.
 */

/** A pause is so many times as long as the answer took: the server has most of its time for others. */
const REST = 3;

export class Refresher {
  /**
   * @param {() => Promise<void>} ask
   * @param {number} delay milliseconds between an event and the question
   */
  constructor(ask, delay) {
    this.ask = ask;
    this.delay = delay;
    this.stale = false;
    this.stopped = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  soon() {
    this.stale = true;
    if (!this.stopped) this.timer ??= setTimeout(() => void this.turn(), this.delay);
  }

  async turn() {
    this.stale = false;
    const before = Date.now();
    await this.ask();
    if (this.stopped) return;
    this.timer = setTimeout(
      () => {
        this.timer = undefined;
        if (this.stale) this.soon();
      },
      REST * (Date.now() - before),
    );
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}
