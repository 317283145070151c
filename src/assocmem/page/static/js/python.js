// MicroPython in a worker of its own. Nothing that the reader types leaves the page; a program that runs longer
// than five seconds is ended with its worker.
import { asset } from "./data.js";

const LIMIT = 5000;
const MUCH = "Stopped after 2,000 lines: the program would print on.";
let parts = null;

// MicroPython writes some numbers with a last digit too many; print here writes them as Python does. And no one can type
// an answer while a program runs.
const BEFORE = `
def _written(x):
    if isinstance(x, float):
        s = _shortest(x) if 1e-4 <= abs(x) < 1e16 else repr(x)
        return s if "." in s or "e" in s or "n" in s else s + ".0"
    if isinstance(x, list):
        return "[" + ", ".join(_written(one) for one in x) + "]"
    if type(x) is tuple:
        return "(" + ", ".join(_written(one) for one in x) + ("," if len(x) == 1 else "") + ")"
    if type(x) is dict:
        return "{" + ", ".join(_written(k) + ": " + _written(v) for k, v in x.items()) + "}"
    return repr(x)

def _print(out):
    def print(*items, sep=" ", end="\\n", **more):
        out(*(x if isinstance(x, str) or not isinstance(x, (float, list, tuple, dict)) else _written(x) for x in items), sep=sep, end=end, **more)
    return print
print = _print(print)

def input(*words):
    raise RuntimeError("input() has no one to ask here; write the answer into the program")
`;

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
  const add = (text) => { if (lines.push(text) > 2000) throw new Error("${MUCH}"); };
  try {
    const load = await prepare();
    const python = await load({ url: data.wasm, heapsize: 8 * 1024 * 1024, stdout: add, stderr: add });
    python.globals.set("_shortest", String);
    python.runPython(data.before);
    self.postMessage({ ready: true });
    python.runPython(data.code);
  } catch (error) {
    lines.push(String(error.message ?? error));
  }
  self.postMessage({ text: lines.slice(0, 2000).concat(lines.length > 2000 ? "${MUCH}" : []).join("\\n") });
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

// Returns { answer, stop }: what the program printed, in time, and what ends it before.
export function run(code) {
  let stop;
  const stopped = new Promise((settle) => (stop = () => settle("Stopped.")));
  return { answer: answered(code, stopped), stop };
}

async function answered(code, stopped) {
  let worker = null;
  const addresses = [];
  try {
    const [script, wasm] = await prepared();
    addresses.push(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    addresses.push(await addressOf(new Blob([wasm], { type: "application/wasm" })));
    worker = new Worker(addresses[0]);
    return await Promise.race([stopped, answer(worker, { code, before: BEFORE, wasm: addresses[1] })]);
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
