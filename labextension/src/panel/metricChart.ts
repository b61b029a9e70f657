import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { Chart, type Values } from './chart.js';
import { element, setText } from '../dom.js';
import { percent, timeOfDay } from '../text/format.js';
import { summary } from '../model/history.js';

/** A name, its value now, and its last hour as a chart; where one points, the value then. */
export class MetricChart implements IDisposable {
  readonly node = element('div', 'ec2-Figure');

  constructor({ name, fullName, trans, filled = false }: MetricChart.IOptions) {
    this._fullName = fullName;
    this._trans = trans;
    this._chart = new Chart({ filled, onPoint: index => this._point(index) });
    this.node.append(
      element('div', 'ec2-Line', element('span', 'ec2-Line-name', name), this._value),
      this._chart.node
    );
  }

  /** @param text - The value now. */
  setValue(text: string): void {
    this._now = text;
    this._write();
  }

  /** @param at - Seconds since the epoch. */
  setHistory(at: number[], values: Values): void {
    this._at = at;
    this._values = values;
    this._chart.show(at, values, this._label());
    this._write();
  }

  recolour(): void {
    this._chart.recolour();
  }

  get isDisposed(): boolean {
    return this._chart.isDisposed;
  }

  dispose(): void {
    this._chart.dispose();
    this.node.remove();
  }

  private _point(index: number | null): void {
    this._pointed = index;
    this._write();
  }

  private _write(): void {
    const index = this._pointed;
    const then = index === null ? null : this._values[index];
    if (index === null || typeof then !== 'number') {
      setText(this._value, this._now);
      return;
    }
    const at = this._at[index] * 1000;
    setText(this._value, this._trans.__('%1 at %2', percent(then).trim(), timeOfDay(at, at)));
  }

  private _label(): string {
    const found = summary(this._values);
    if (!found) {
      return this._trans.__('%1 in the last hour: unknown', this._fullName);
    }
    const [mean, max] = [found.mean, found.max].map(Math.round);
    return this._trans.__(
      '%1 in the last hour: average %2 %, maximum %3 %',
      this._fullName,
      mean,
      max
    );
  }

  private readonly _fullName: string;
  private readonly _trans: TranslationBundle;
  private readonly _chart: Chart;
  private readonly _value = element('span', 'ec2-Line-value');
  private _now = '';
  private _at: number[] = [];
  private _values: Values = [];
  private _pointed: number | null = null;
}

export namespace MetricChart {
  export interface IOptions {
    name: string;
    /** Names the metric without what stands around it. */
    fullName: string;
    trans: TranslationBundle;
    /** Fill the area below the line: for what is held rather than done. */
    filled?: boolean;
  }
}
