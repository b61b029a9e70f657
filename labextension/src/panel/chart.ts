import type { IDisposable } from '@lumino/disposable';
import type uPlot from 'uplot';

import { element, setAttribute } from '../dom.js';
import { HOUR_SECONDS } from '../model/history.js';

export type Values = (number | null)[];

export interface IChartOptions {
  /** Fill the area below the line, for what is held rather than done. */
  filled: boolean;
  /** A person points at a moment, or no longer (null): `index` is that of the value. */
  onPoint: (index: number | null) => void;
}

const QUARTER_SECONDS = 900;

/** A share of a whole (0-100 %) over the last hour. uPlot is loaded when the first one is shown. */
export class Chart implements IDisposable {
  readonly node = element('div', 'ec2-Chart');

  constructor(private readonly options: IChartOptions) {
    this.node.setAttribute('role', 'img');
    this._observer = new ResizeObserver(() => this._resize());
    this._observer.observe(this.node);
  }

  /**
   * @param at - Seconds since the epoch, one for each of `values`.
   * @param label - The same in words, for who does not see it.
   */
  show(at: number[], values: Values, label: string): void {
    setAttribute(this.node, 'aria-label', label);
    this._data = [at, values];
    if (this._plot) {
      this._plot.setData(this._data);
    } else {
      void this._draw();
    }
  }

  /** Take the colours of the theme anew. */
  recolour(): void {
    this._colours = null;
    this._plot?.redraw(false);
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    this._observer.disconnect();
    this._plot?.destroy();
    this._plot = null;
  }

  private async _draw(): Promise<void> {
    const { default: UPlot } = await import('uplot');
    if (this._plot || this._disposed || !this._data || this.node.clientWidth === 0) {
      return;
    }
    this._plot = new UPlot(this._plotOptions(), this._data, this.node);
  }

  private _plotOptions(): uPlot.Options {
    const colour = (name: keyof IColours) => (): string => this._colour(name);
    const hidden = { size: 0, values: () => [], ticks: { show: false } };
    return {
      width: this.node.clientWidth,
      height: this.node.clientHeight,
      padding: [1, 0, 1, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'ec2spawner' } },
      scales: {
        x: { range: (_plot, _from, to) => [to - HOUR_SECONDS, to] },
        y: { range: [0, 100] }
      },
      axes: [
        {
          ...hidden,
          splits: (_plot, _axis, from, to) => steps(from, to),
          grid: { stroke: colour('grid'), width: 1 }
        },
        {
          ...hidden,
          splits: () => [0, 100],
          grid: { stroke: colour('border'), width: 1, dash: [3, 3] }
        }
      ],
      series: [
        {},
        {
          stroke: colour('line'),
          width: 1.5,
          fill: this.options.filled ? colour('area') : undefined,
          points: { show: false }
        }
      ],
      hooks: { setCursor: [plot => this._point(plot.cursor.idx ?? null)] }
    };
  }

  private _point(index: number | null): void {
    if (index !== this._pointed) {
      this._pointed = index;
      this.options.onPoint(index);
    }
  }

  private _resize(): void {
    const { clientWidth: width, clientHeight: height } = this.node;
    if (width === 0 || !this._data) {
      return;
    }
    if (!this._plot) {
      void this._draw();
    } else if (this._plot.width !== width || this._plot.height !== height) {
      this._plot.setSize({ width, height });
    }
  }

  private _colour(name: keyof IColours): string {
    this._colours ??= themeColours(this.node);
    return this._colours[name];
  }

  private readonly _observer: ResizeObserver;
  private _plot: uPlot | null = null;
  private _data: [number[], Values] | null = null;
  private _colours: IColours | null = null;
  private _pointed: number | null = null;
  private _disposed = false;
}

interface IColours {
  line: string;
  area: string;
  border: string;
  grid: string;
}

/** The stylesheet says which of the theme's colours a chart has; a canvas needs them as values. */
function themeColours(node: HTMLElement): IColours {
  const style = getComputedStyle(node);
  const colour = (name: string): string => style.getPropertyValue(`--ec2-chart-${name}`).trim();
  return {
    line: colour('line'),
    area: colour('area'),
    border: colour('border'),
    grid: colour('grid')
  };
}

/** The quarters of an hour, so that one sees how long ago something was. */
function steps(from: number, to: number): number[] {
  const found = [];
  for (let at = to - QUARTER_SECONDS; at > from; at -= QUARTER_SECONDS) {
    found.push(at);
  }
  return found;
}
