import { element, setAttribute, setText, show } from './dom.js';
import { Figure } from './figure.js';
import type { Words } from './format.js';
import { memoryText, percentText, ratesText } from './machineText.js';
import type { IView } from './model.js';
import { Section } from './section.js';
import type { IHistory, ITelemetry } from './wire.js';

/** CPU and memory with their last hour, disk and network. */
export class MachineSection extends Section {
  constructor(private readonly words: Words) {
    super(words.__('Machine'));
    this._cpu = new Figure(words.__('CPU'), words.__('CPU'), words);
    this._memory = new Figure(words.__('Memory'), words.__('Memory'), words, true);
    this._disk = new Line(words.__('Disk'));
    this._network = new Line(words.__('Network'));
    this.node.append(
      element('div', 'ec2-Figures', this._cpu.node, this._memory.node),
      element('dl', 'ec2-Lines', this._disk.node, this._network.node)
    );
  }

  update(view: IView): void {
    const telemetry = view.status?.telemetry ?? null;
    this.setShown(telemetry !== null);
    if (!telemetry) {
      return;
    }
    const { words } = this;
    const name = view.status?.instance_type || words.__('Machine');
    const { cpu_count: cores } = telemetry;
    setText(
      this.heading,
      cores ? `${name} · ${words._n('%1 core', '%1 cores', cores, cores)}` : name
    );
    this._cpu.setValue(percentText(telemetry.cpu_percent));
    const { memory_used_mib: used, memory_total_mib: total } = telemetry;
    this._memory.setValue(memoryText(used, total, words));
    this._writeDiskAndNetwork(telemetry);
  }

  setHistory(history: IHistory): void {
    this._cpu.setHistory(history.at, history.cpu_percent);
    this._memory.setHistory(history.at, history.memory_percent);
  }

  recolour(): void {
    this._cpu.recolour();
    this._memory.recolour();
  }

  dispose(): void {
    this._cpu.dispose();
    this._memory.dispose();
  }

  private _writeDiskAndNetwork(telemetry: ITelemetry): void {
    const { words } = this;
    const { disk_read_mib_per_s: read, disk_write_mib_per_s: written } = telemetry;
    const { disk_used_mib: used, disk_total_mib: total } = telemetry;
    const { network_in_mib_per_s: received, network_out_mib_per_s: sent } = telemetry;
    const isKnown = typeof used === 'number' && typeof total === 'number';
    this._disk.write(
      isKnown ? memoryText(used, total, words) : '',
      ratesText(read, written, words.__('read'), words.__('written'), words)
    );
    this._network.write(ratesText(received, sent, words.__('in'), words.__('out'), words), '');
  }

  private readonly _cpu: Figure;
  private readonly _memory: Figure;
  private readonly _disk: Line;
  private readonly _network: Line;
}

/** A name with its value; away while there is none. */
class Line {
  readonly node: HTMLElement;

  constructor(name: string) {
    this.node = element('div', 'ec2-Line', element('dt', 'ec2-Line-name', name), this._value);
  }

  write(text: string, note: string): void {
    show(this.node, text !== '');
    setText(this._value, text);
    setAttribute(this.node, 'title', note);
  }

  private readonly _value = element('dd', 'ec2-Line-value');
}
