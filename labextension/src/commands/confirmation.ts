import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

export interface IConfirmOptions {
  title: string;
  /** Sentences, a paragraph each; empty ones are left out. */
  texts: string[];
  accept: string;
  cancel: string;
}

/** Whether a person agrees to what cannot be undone. */
export async function confirm(options: IConfirmOptions): Promise<boolean> {
  return (await choose(options)) === 'accept';
}

/**
 * The same where something else loses less: that is offered first, and is what Enter presses.
 *
 * @param instead - Its label; empty where there is no such thing.
 */
export async function choose(
  { title, texts, accept, cancel }: IConfirmOptions,
  instead = ''
): Promise<'accept' | 'instead' | null> {
  const offered = instead ? [Dialog.okButton({ label: instead, actions: [INSTEAD] })] : [];
  const { button } = await showDialog({
    title,
    body: paragraphs(texts),
    buttons: [
      Dialog.cancelButton({ label: cancel }),
      ...offered,
      Dialog.warnButton({ label: accept })
    ],
    defaultButton: offered.length
  });
  if (!button.accept) {
    return null;
  }
  return button.actions.includes(INSTEAD) ? 'instead' : 'accept';
}

const INSTEAD = 'instead';

/** Text as text, whoever wrote it. */
function paragraphs(texts: string[]): Widget {
  const body = new Widget();
  body.addClass('ec2-Dialog-body');
  for (const text of texts.filter(Boolean)) {
    body.node.appendChild(document.createElement('p')).textContent = text;
  }
  return body;
}
