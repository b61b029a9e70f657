import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { IHardwareChoice, IHardwareChoices, INotebookStatus } from '../api/wire/index.js';
import { element } from '../dom.js';
import {
  deletedDiskText,
  hardwareText,
  type IHardwareText,
  presentPriceText
} from '../text/hardwareText.js';
import { workersEndSentence } from '../text/workersText.js';

/** Which hardware to continue on; null where the dialog is dismissed. */
export async function chooseHardware(
  hardware: IHardwareChoices,
  status: INotebookStatus | null,
  trans: TranslationBundle
): Promise<IHardwareChoice | null> {
  const answer = await showDialog({
    title: trans.__('Continue on other hardware'),
    body: new HardwareList(hardware, status, trans),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Continue there') })
    ],
    focusNodeSelector: 'input:checked'
  });
  const chosen = answer.button.accept ? answer.value : null;
  return hardware.choices.find(({ profile }) => profile === chosen) ?? null;
}

/** The choices as radio buttons: arrow keys move between them. */
class HardwareList extends Widget implements Dialog.IBodyWidget<string | null> {
  constructor(
    { choices, deletes_disk }: IHardwareChoices,
    status: INotebookStatus | null,
    trans: TranslationBundle
  ) {
    super();
    this.addClass('ec2-Dialog-body');
    const list = element('fieldset', 'ec2-Hardware');
    const first = choices.find(choice => choice.refusal === '' && choice.is_available);
    for (const choice of choices) {
      list.append(hardwareLine(choice, choice === first, hardwareText(choice, status, trans)));
    }
    this.node.append(
      element(
        'p',
        '',
        trans.__(
          'Another machine is bought first, and your server runs on meanwhile. Then documents and variables are saved and brought back there, at the same address. If there is no such machine, nothing changes.'
        )
      )
    );
    const price = presentPriceText(status, trans);
    if (price) {
      this.node.append(element('p', '', price));
    }
    const workersEnd = workersEndSentence(status, trans);
    if (workersEnd) {
      this.node.append(element('p', '', workersEnd));
    }
    if (deletes_disk) {
      this.node.append(element('p', '', deletedDiskText(trans)));
    }
    this.node.append(list);
    list.setAttribute('aria-label', trans.__('Hardware'));
  }

  getValue(): string | null {
    return this.node.querySelector<HTMLInputElement>('input:checked')?.value ?? null;
  }
}

/** One choice: a radio button with its name, price and notes. */
export function hardwareLine(
  choice: IHardwareChoice,
  isChecked: boolean,
  text: IHardwareText
): HTMLElement {
  // As JupyterLab calls those that are in a dialog from its beginning.
  const radio = element('input', 'jp-mod-styled');
  radio.type = 'radio';
  radio.name = 'ec2-hardware';
  radio.value = choice.profile;
  radio.checked = isChecked;
  radio.disabled = text.refusal !== '';
  const notes = [text.refusal, ...text.notes].filter(Boolean);
  return element(
    'label',
    'ec2-Hardware-choice',
    radio,
    element('span', 'ec2-Hardware-name', text.name),
    element('span', 'ec2-Hardware-price', text.price),
    ...notes.map(note => element('span', 'ec2-Hardware-note', note))
  );
}
