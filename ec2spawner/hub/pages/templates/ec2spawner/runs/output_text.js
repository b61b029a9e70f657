// What a run has printed, as text: the log of a script, or the outputs of a notebook's cells.
const OUTPUT_LINES = 200;
const OUTPUT_CHARACTERS = 262144; // a result may have 64 MiB: only its end is split into lines
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

const joinedText = (text) => (Array.isArray(text) ? text.join("") : String(text ?? ""));

/** As a terminal shows it: a progress bar returns to the beginning of its line. */
const afterReturn = (line) => line.slice(line.trimEnd().lastIndexOf("\r") + 1);

function textOfOutput(output) {
  if (output.output_type === "stream") return joinedText(output.text);
  if (output.output_type === "error") return joinedText((output.traceback || []).map((line) => line + "\n"));
  const plain = (output.data || {})["text/plain"];
  return plain ? joinedText(plain) + "\n" : "";
}

function textOfNotebook(body) {
  let notebook;
  try {
    notebook = JSON.parse(body);
  } catch {
    throw new Error("It is no notebook");
  }
  return (notebook.cells || []).flatMap((cell) => cell.outputs || []).map(textOfOutput).join("");
}

/** The last lines of what a run has printed; empty for nothing. */
function lastOutput(run, body) {
  const text = run.path.endsWith(".ipynb") ? textOfNotebook(body) : body;
  const lines = text.slice(-OUTPUT_CHARACTERS).replace(ANSI, "").trimEnd().split("\n");
  return lines.slice(-OUTPUT_LINES).map(afterReturn).join("\n");
}
