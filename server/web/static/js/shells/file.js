/**
 * The page of one exported tree: it shows what is written in it, and asks nothing of any server.
 */

import { element, replaceChildren } from "../core/dom.js";
import { mountExecution } from "../core/execution.js";
import { fileSource } from "../sources/file.js";

/** @import {Bundle} from "../types.js" */

const FORMAT = "outrider-bundle";

/** @param {string} text */
function bundleOf(text) {
  const bundle = /** @type {Bundle} */ (JSON.parse(text));
  if (bundle === null || typeof bundle !== "object" || bundle.format !== FORMAT) {
    throw new Error(`the data of this file are no \`${FORMAT}\``);
  }
  return bundle;
}

/**
 * @param {HTMLElement} main
 * @param {string} text
 */
function show(main, text) {
  const bundle = bundleOf(text);
  const wanted = location.hash.slice(1);
  const selected = Object.hasOwn(bundle.executions, wanted) ? wanted : bundle.id;
  mountExecution(main, {
    source: fileSource(bundle),
    id: bundle.id,
    selected,
    hooks: {
      changed: ({ node }) => history.replaceState(null, "", `#${node}`),
      standing: ({ agent, status }) => {
        document.title = `${agent}: ${status}`;
      },
    },
  });
}

const main = document.getElementById("file");
const data = document.getElementById("bundle");
if (main !== null && data !== null) {
  try {
    show(main, data.textContent ?? "");
    main.dataset.state = "ready";
  } catch (failure) {
    main.dataset.state = "error";
    const words = failure instanceof Error ? failure.message : String(failure);
    replaceChildren(main, element("p", { role: "alert" }, `This file cannot be shown: ${words}`));
  }
}
