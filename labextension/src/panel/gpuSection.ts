import type { TranslationBundle } from '@jupyterlab/translation';

import { element, fill, setAttribute, setText, show } from '../dom.js';
import { MetricChart } from './metricChart.js';
import { gpuModel } from '../text/format.js';
import {
  clockText,
  gpusTitle,
  gpuTroubles,
  heatText,
  memoryText,
  percentText,
  sliceText,
  usedText,
  type ITrouble
} from '../text/instanceText.js';
import { sentenceText } from '../text/sentenceText.js';
import type { SettingsModel } from '../model/settingsModel.js';
import type { IView } from '../model/statusModel.js';
import type { TemperatureUnit } from '../settings.js';
import { Section } from './section.js';
import type { IGpuSample, IHistory, IMigSlice } from '../api/wire/index.js';

/** Each GPU: its use and memory with their last hour, its heat, power and clocks, its troubles. */
export class GpuSection extends Section {
  constructor(
    private readonly settings: SettingsModel,
    private readonly trans: TranslationBundle
  ) {
    super(trans.__('GPU'));
    this.node.append(this._none, this._list);
  }

  update(view: IView): void {
    const telemetry = view.status?.telemetry ?? null;
    this.setShown(telemetry !== null);
    if (!telemetry) {
      return;
    }
    const { gpus } = telemetry;
    setText(this.heading, gpusTitle(telemetry, this.trans));
    const error = telemetry.gpu_error;
    show(this._none, gpus.length === 0 || error !== null);
    setText(
      this._none,
      error ? sentenceText(error, this.trans) : this.trans.__('This machine has no GPU.')
    );
    setAttribute(this._list, 'data-many', `${gpus.length > 1}`);
    this._keep(gpus);
    const { temperatureUnit } = this.settings.current;
    gpus.forEach((gpu, index) => this._gpus[index].update(gpu, view.now, temperatureUnit));
  }

  setHistory(history: IHistory): void {
    this._history = history;
    for (const gpu of this._gpus) {
      const own = history.gpus.find(each => each.index === gpu.index);
      if (own) {
        gpu.use.setHistory(history.at, own.use_percent);
        gpu.memory.setHistory(history.at, own.memory_percent);
      }
    }
  }

  recolour(): void {
    this._gpus.flatMap(gpu => [gpu.use, gpu.memory]).forEach(figure => figure.recolour());
  }

  dispose(): void {
    this._gpus.splice(0).forEach(gpu => gpu.dispose());
  }

  /** One part for each GPU; anew when they are others. */
  private _keep(gpus: IGpuSample[]): void {
    const isSame =
      gpus.length === this._gpus.length &&
      gpus.every((gpu, index) => gpu.index === this._gpus[index].index);
    if (!isSame) {
      this.dispose();
      this._gpus.push(...gpus.map(gpu => new GpuPart(gpu.index, gpus.length > 1, this.trans)));
      this._list.replaceChildren(...this._gpus.map(gpu => gpu.node));
      if (this._history) {
        this.setHistory(this._history);
      }
    }
  }

  private readonly _none = element('p', 'ec2-Quiet');
  private readonly _list = element('div', 'ec2-Gpus');
  private readonly _gpus: GpuPart[] = [];
  private _history: IHistory | null = null;
}

class GpuPart {
  readonly node = element('div', 'ec2-Gpu');
  readonly use: MetricChart;
  readonly memory: MetricChart;

  constructor(
    readonly index: number,
    private readonly isOneOfMany: boolean,
    private readonly trans: TranslationBundle
  ) {
    const [use, memory] = isOneOfMany
      ? [trans.__('GPU %1', index), trans.__('Memory of GPU %1', index)]
      : [trans.__('GPU'), trans.__('GPU memory')];
    this.use = new MetricChart({ name: trans.__('GPU'), fullName: use, trans });
    this.memory = new MetricChart({
      name: trans.__('Memory'),
      fullName: memory,
      trans,
      filled: true
    });
    this._slices.setAttribute('aria-label', trans.__('Slices of %1', use));
    this.node.append(
      this._title,
      element('div', 'ec2-Figures', this.use.node, this.memory.node),
      this._heat,
      this._clock,
      this._slices,
      this._troubles
    );
  }

  update(gpu: IGpuSample, now: number, unit: TemperatureUnit): void {
    const { trans, isOneOfMany } = this;
    show(this._title, isOneOfMany);
    setText(this._title, trans.__('GPU %1', gpu.index));
    setAttribute(this._title, 'title', gpuModel(gpu.name));
    const isCut = gpu.mig.length > 0;
    this.use.setValue(isCut ? trans.__('by slice') : percentText(gpu.use_percent));
    const { memory_used_mib: used, memory_total_mib: total } = gpu;
    this.memory.setValue((isOneOfMany ? usedText : memoryText)(used, total, trans));
    setText(this._heat, heatText(gpu, trans, unit));
    const clock = clockText(gpu, trans);
    setText(this._clock, clock);
    setAttribute(this._clock, 'title', clock);
    setAttribute(this.node, 'data-lost', `${gpu.lost}`);
    show(this._slices, isCut);
    fill(this._slices, gpu.mig, newSlice, (node, slice) => writeSlice(node, slice, trans));
    fill(this._troubles, gpuTroubles(gpu, now, trans), newTrouble, writeTrouble);
  }

  dispose(): void {
    this.use.dispose();
    this.memory.dispose();
  }

  private readonly _title = element('h3', 'ec2-Gpu-title');
  private readonly _heat = element('p', 'ec2-Gpu-fact ec2-Gpu-heat');
  private readonly _clock = element('p', 'ec2-Gpu-fact');
  private readonly _slices = element('ul', 'ec2-Lines');
  private readonly _troubles = element('div');
}

function newSlice(): HTMLElement {
  const name = element('span', 'ec2-Line-name');
  return element('li', 'ec2-Line', name, element('span', 'ec2-Line-value'));
}

function writeSlice(node: HTMLElement, slice: IMigSlice, trans: TranslationBundle): void {
  setText(node.children[0], slice.profile || trans.__('Slice %1', slice.index));
  setText(node.children[1], sliceText(slice, trans));
}

function newTrouble(): HTMLElement {
  return element('p', 'ec2-Trouble');
}

function writeTrouble(node: HTMLElement, trouble: ITrouble): void {
  setAttribute(node, 'data-level', trouble.level);
  setText(node, trouble.text);
}
