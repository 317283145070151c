// MicroPython in a worker of its own. Nothing that the reader types leaves the page; a program that runs longer
// than five seconds is ended with its worker.
import { asset } from "./data.js";

const LIMIT = 5000;
let parts = null;

async function workerScript() {
  const source = new TextDecoder().decode(await asset("vendor/micropython.mjs"));
  // A classic worker starts from file:// too, where a module worker does not; a function holds the module's await.
  const classic = source
    .replaceAll("import.meta.url", "self.location.href")
    .replace("export default _createMicroPythonModule;", "")
    .replace("export async function loadMicroPython", "async function loadMicroPython");
  return `async function prepare() { "use strict"; ${classic}
return loadMicroPython; }
self.onmessage = async ({ data }) => {
  const lines = [];
  const add = (text) => { lines.push(text); if (lines.length > 2000) throw new Error("too much output"); };
  try {
    const load = await prepare();
    const python = await load({ url: data.wasm, heapsize: 8 * 1024 * 1024, stdout: add, stderr: add });
    self.postMessage({ ready: true });
    python.runPython(data.code);
  } catch (error) {
    lines.push(String(error.message ?? error));
  }
  self.postMessage({ text: lines.join("\\n") });
};`;
}

async function prepared() {
  parts ??= Promise.all([workerScript(), asset("vendor/micropython.wasm")]);
  parts.catch(() => (parts = null));
  return parts;
}

// A worker started from file:// may not fetch a blob of the page's, but data that its address holds.
function addressOf(blob) {
  if (location.protocol !== "file:") return URL.createObjectURL(blob);
  return new Promise((settle, fail) => {
    const reader = new FileReader();
    reader.onload = () => settle(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(blob);
  });
}

export async function run(code) {
  let worker = null;
  const addresses = [];
  try {
    const [script, wasm] = await prepared();
    addresses.push(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    addresses.push(await addressOf(new Blob([wasm], { type: "application/wasm" })));
    worker = new Worker(addresses[0]);
    return await answer(worker, { code, wasm: addresses[1] });
  } catch (error) {
    return `Python could not start: ${error.message}`;
  } finally {
    worker?.terminate();
    addresses.forEach((address) => URL.revokeObjectURL(address));
  }
}

function answer(worker, message) {
  return new Promise((settle) => {
    let timer = setTimeout(() => settle("Python did not start within 20 seconds."), 20000);
    worker.onmessage = ({ data }) => {
      if (data.ready) {
        clearTimeout(timer);
        timer = setTimeout(() => settle("Stopped after 5 seconds: the program did not end by itself."), LIMIT);
        return;
      }
      clearTimeout(timer);
      settle(data.text || "The program ended and printed nothing.");
    };
    worker.onerror = (event) => {
      clearTimeout(timer);
      settle(`Python failed: ${event.message}`);
    };
    worker.postMessage(message);
  });
}
