import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

export interface IConfirmOptions {
  title: string;
  texts: string[];
  accept: string;
  cancel: string;
}

/** Whether a person agrees to what cannot be undone. */
export async function confirm({ title, texts, accept, cancel }: IConfirmOptions): Promise<boolean> {
  const { button } = await showDialog({
    title,
    body: paragraphs(texts),
    buttons: [Dialog.cancelButton({ label: cancel }), Dialog.warnButton({ label: accept })],
    defaultButton: 0
  });
  return button.accept;
}

/** Text as text, whoever wrote it. */
function paragraphs(texts: string[]): Widget {
  const body = new Widget();
  body.addClass('ec2-Dialog-body');
  for (const text of texts) {
    body.node.appendChild(document.createElement('p')).textContent = text;
  }
  return body;
}
