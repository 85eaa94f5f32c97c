/**
 * The sandbox between a host and a view: it loads the view under the policy of this page, and passes messages on.
 */

const RESERVED = "ui/notifications/sandbox-";
/** @type {HTMLIFrameElement | null} */
let view = null;

window.addEventListener("message", ({ source, data }) => {
  if (source === window.parent && data?.method === `${RESERVED}resource-ready`) {
    view = document.createElement("iframe");
    view.setAttribute("sandbox", "allow-scripts"); // without an origin of its own: stricter than a host must be
    view.setAttribute("srcdoc", data.params.html);
    for (const [name, value] of Object.entries({ width: "100%", height: "100vh", border: "0", display: "block" }))
      view.style.setProperty(name, value);
    document.body.style.setProperty("margin", "0");
    document.body.append(view);
  } else if (source === window.parent) {
    view?.contentWindow.postMessage(data, "*");
  } else if (view !== null && source === view.contentWindow && !String(data?.method).startsWith(RESERVED)) {
    window.parent.postMessage(data, "*");
  }
});
window.parent.postMessage({ jsonrpc: "2.0", method: `${RESERVED}proxy-ready`, params: {} }, "*");
