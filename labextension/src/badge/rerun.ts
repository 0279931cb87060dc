import { Dialog, ISessionContext, showDialog } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { RECORDED } from './match';

/** Whether the user wants the cell to be run again: code has effects, so a click alone is not enough. */
export async function confirmRerun(): Promise<boolean> {
  const { button } = await showDialog({
    title: 'Run this cell again?',
    body:
      'It is run once more under %%vram, which records where its memory goes; the report comes' +
      ' into its output. The cell’s text stays as it is.',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Run Again' })]
  });
  return button.accept;
}

/** A cell's text under `%%vram`; as it is if it is so already. */
export function recordedSource(source: string): string {
  return /^\s*%%vram\b/.test(source) ? source : RECORDED + source;
}

/**
 * Run a cell under `%%vram`, with its outputs and count as of any run, and its text untouched.
 *
 * This is what `CodeCell.execute` does, which takes no text but the cell's.
 *
 * @returns whether it ran to its end, be it with an error.
 */
export async function rerunRecorded(cell: CodeCell, context: ISessionContext): Promise<boolean> {
  const { model } = cell;
  const source = model.sharedModel.getSource();
  const kernel = context.session?.kernel;
  if (!kernel || !source.trim() || context.isTerminating || context.pendingInput) {
    return false;
  }
  model.sharedModel.transact(() => {
    model.clearExecution();
    cell.outputHidden = false;
  }, false);
  setRunning(cell, true);
  model.trusted = true;
  const tags: unknown = model.getMetadata('tags');
  const mayRaise = Array.isArray(tags) && tags.includes('raises-exception');
  const future = kernel.requestExecute(
    { code: recordedSource(source), stop_on_error: !mayRaise },
    false,
    { ...model.metadata, cellId: model.sharedModel.getId() }
  );
  cell.outputArea.future = future;
  try {
    const reply = await future.done;
    model.executionCount = reply.content.execution_count;
    return true;
  } catch (reason) {
    // Canceled: the kernel was restarted, or the cell run again meanwhile.
    if (!cell.isDisposed && cell.outputArea.future === future) {
      setRunning(cell, false);
    }
    console.warn('jupyter-vram: the run under %%vram did not end.', reason);
    return false;
  }
}

/** The prompt's star. JupyterLab before 4.4 has no such state. */
function setRunning(cell: CodeCell, running: boolean): void {
  const model: object = cell.model;
  if ('executionState' in model) {
    cell.model.executionState = running ? 'running' : 'idle';
  } else {
    cell.setPrompt(running ? '*' : '');
  }
}
