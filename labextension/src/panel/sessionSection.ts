import type { TranslationBundle } from '@jupyterlab/translation';

import { element, fill, setAttribute, setText, show } from '../dom.js';
import { type IWokenText, wakeText } from '../text/sleepText.js';
import type { IView } from '../model/statusModel.js';
import type { WorkerOpener } from './workerOpener.js';
import { Section } from './section.js';
import { stateOf } from '../model/state.js';

/** What came back of the session that slept: progress first, then the whole list. */
export class SessionSection extends Section {
  constructor(opener: WorkerOpener, trans: TranslationBundle) {
    super(trans.__('Your session'));
    this._opener = opener;
    this._trans = trans;
    this.node.classList.add('ec2-Session');
    this._bar.append(element('div', 'ec2-Bar-part'));
    this._bar.setAttribute('role', 'progressbar');
    this._bar.setAttribute('aria-label', trans.__('Variables that are back'));
    this._bar.setAttribute('aria-valuemin', '0');
    this._bar.setAttribute('aria-valuemax', '100');
    this._details.append(element('summary', '', trans.__('What came back')), this._list);
    this._details.append(this._more);
    this.node.append(this._headline, this._bar, this._details);
  }

  update(view: IView): void {
    const wake = view.status?.wake ?? null;
    this.setShown(wake !== null && stateOf(view).kind !== 'stopped');
    if (!wake) {
      return;
    }
    const text = wakeText(wake, this._trans);
    setText(this._headline, text.headline);
    show(this._bar, text.percent !== null);
    const percent = (text.percent ?? 0).toFixed(0);
    setAttribute(this._bar, 'aria-valuenow', percent);
    setAttribute(this._bar, 'aria-valuetext', text.headline);
    setAttribute(this._bar.firstElementChild as Element, 'style', `width: ${percent}%`);
    show(this._details, text.kernels.length > 0);
    fill(
      this._list,
      text.kernels,
      () => this._makeKernel(),
      (node, kernel) => this._writeKernel(node, kernel)
    );
    setText(this._more, text.more);
    show(this._more, text.more !== '');
  }

  private _makeKernel(): HTMLElement {
    const name = element('button', 'ec2-Link');
    name.type = 'button';
    const line = element('div', 'ec2-Woken-line', name, element('span'));
    return element('li', 'ec2-Woken', line, element('p', 'ec2-Quiet'), element('ul', 'ec2-Quiet'));
  }

  private _writeKernel(node: HTMLElement, text: IWokenText): void {
    const [line, problem, lost] = node.children as unknown as HTMLElement[];
    const [name, done] = line.children as unknown as HTMLButtonElement[];
    setText(name, text.name);
    setAttribute(name, 'title', text.name);
    setAttribute(name, 'aria-disabled', `${text.path === ''}`);
    name.onclick = text.path === '' ? null : () => this._opener.openNotebook(text.path);
    setText(done, text.done);
    setText(problem, text.problem);
    show(problem, text.problem !== '');
    const lines = [...text.lost, text.more].filter(Boolean);
    show(lost, lines.length > 0);
    fill(
      lost,
      lines,
      () => element('li'),
      (item, sentence) => setText(item, sentence)
    );
  }

  private readonly _opener: WorkerOpener;
  private readonly _trans: TranslationBundle;
  private readonly _headline = element('p', 'ec2-Session-headline');
  private readonly _bar = element('div', 'ec2-Bar ec2-Session-bar');
  private readonly _details = element('details', 'ec2-Rules');
  private readonly _list = element('ul', 'ec2-Lines');
  private readonly _more = element('p', 'ec2-Quiet');
}
