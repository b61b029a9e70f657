import type { TranslationBundle } from '@jupyterlab/translation';

import { costText, type ICostText, type ILine } from '../text/costText.js';
import { element, fill, setAttribute, setText, show } from '../dom.js';
import type { IView } from '../model/statusModel.js';
import { Section } from './section.js';
import { stateOf } from '../model/state.js';

/** What this server has cost, large; below it the price, what spot saved, today and this month. */
export class CostSection extends Section {
  constructor(private readonly trans: TranslationBundle) {
    super(trans.__('Cost'));
    // The large number says it: the heading is for who does not see how large it is.
    this.heading.classList.add('ec2-mod-unseen');
    this._meter.setAttribute('role', 'meter');
    this._meter.setAttribute('aria-valuemin', '0');
    this._meter.setAttribute('aria-valuemax', '100');
    this._meter.append(element('div', 'ec2-Bar-part'));
    const amount = element('p', 'ec2-Cost', this._amount, ' ', this._mark);
    this.node.append(amount, this._caption, this._lines, this._meter, this._forecast);
  }

  update(view: IView): void {
    const cost = view.status?.managed ? view.status.cost : null;
    this.setShown(view.status?.managed === true);
    if (!view.status?.managed) {
      return;
    }
    if (!cost) {
      setText(this._amount, '–');
      setText(this._mark, '');
      setText(this._caption, this.trans.__('The cost of this server is not known yet.'));
      fill(this._lines, [], newLine, writeLine);
      this._writeLimit(null);
      return;
    }
    const text = costText(cost, view.now, this.trans, stateOf(view).kind === 'stopped');
    setText(this._amount, text.amount);
    setText(this._mark, text.mark);
    setText(this._caption, text.caption);
    fill(this._lines, text.lines, newLine, writeLine);
    this._writeLimit(text.limit);
  }

  private _writeLimit(limit: ICostText['limit']): void {
    show(this._meter, limit !== null);
    show(this._forecast, Boolean(limit?.forecast));
    setText(this._forecast, limit?.forecast ?? '');
    if (!limit) {
      return;
    }
    const percent = Math.min(100, limit.percent);
    setAttribute(this._meter, 'aria-label', limit.label);
    setAttribute(this._meter, 'aria-valuenow', `${percent}`);
    setAttribute(this._meter, 'data-level', level(limit.percent));
    setAttribute(this._meter.firstElementChild as Element, 'style', `width: ${percent}%`);
  }

  private readonly _amount = element('span', 'ec2-Cost-amount');
  private readonly _mark = element('span', 'ec2-Cost-mark');
  private readonly _caption = element('p', 'ec2-Cost-caption');
  private readonly _lines = element('dl', 'ec2-Lines');
  private readonly _meter = element('div', 'ec2-Bar');
  private readonly _forecast = element('p', 'ec2-Cost-caption');
}

/** As the notices do: from 75 % on it is worth a look, at 100 % it is used up. */
function level(percent: number): string {
  return percent >= 100 ? 'error' : percent >= 75 ? 'warning' : 'ok';
}

function newLine(): HTMLElement {
  const name = element('dt', 'ec2-Line-name');
  return element('div', 'ec2-Line', name, element('dd', 'ec2-Line-value'));
}

function writeLine(node: HTMLElement, line: ILine): void {
  setAttribute(node, 'data-kind', line.kind);
  setText(node.children[0], line.name);
  setText(node.children[1], line.value);
  setAttribute(node, 'title', line.note);
}
