import assert from "node:assert/strict";
import { test } from "node:test";
import { Refresher } from "../../../server/web/static/js/shells/refresher.js";

/** @param {import("node:test").TestContext} context */
function timed(context) {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  return async (/** @type {number} */ milliseconds) => {
    context.mock.timers.tick(milliseconds);
    for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
  };
}

test("many events are one question", async (context) => {
  const pass = timed(context);
  let asked = 0;
  const refresher = new Refresher(async () => {
    asked += 1;
  }, 100);
  for (let event = 0; event < 50; event += 1) refresher.soon();
  await pass(99);
  assert.equal(asked, 0);
  await pass(1);
  assert.equal(asked, 1);
  await pass(10_000);
  assert.equal(asked, 1);
});

test("an event during the question is asked about, after a pause as long as the answers take", async (context) => {
  const pass = timed(context);
  let asked = 0;
  /** @type {() => void} */
  let answer = () => {};
  const refresher = new Refresher(() => {
    asked += 1;
    return new Promise((done) => {
      answer = done;
    });
  }, 100);
  refresher.soon();
  await pass(100);
  refresher.soon();
  await pass(200);
  answer();
  await pass(0);
  await pass(600 + 99);
  assert.equal(asked, 1);
  await pass(1);
  await pass(100);
  assert.equal(asked, 2);
});

test("nothing is asked once it has stopped", async (context) => {
  const pass = timed(context);
  let asked = 0;
  const refresher = new Refresher(async () => {
    asked += 1;
  }, 100);
  refresher.soon();
  refresher.stop();
  refresher.soon();
  await pass(1_000);
  assert.equal(asked, 0);
});
