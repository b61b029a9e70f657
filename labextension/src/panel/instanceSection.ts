import type { TranslationBundle } from '@jupyterlab/translation';

import { element, setAttribute, setText, show } from '../dom.js';
import { MetricChart } from './metricChart.js';
import { diskName, diskUse, memoryText, percentText, ratesText } from '../text/instanceText.js';
import type { IView } from '../model/statusModel.js';
import { Section } from './section.js';
import type { IDiskUse, IHistory, ITelemetry } from '../api/wire/index.js';

/** CPU and memory with their last hour, disk and network. */
export class InstanceSection extends Section {
  constructor(private readonly trans: TranslationBundle) {
    super(trans.__('Machine'));
    this._cpu = new MetricChart({ name: trans.__('CPU'), fullName: trans.__('CPU'), trans });
    this._memory = new MetricChart({
      name: trans.__('Memory'),
      fullName: trans.__('Memory'),
      trans,
      filled: true
    });
    this._disk = new Line(trans.__('Disk'));
    this._network = new Line(trans.__('Network'));
    this.node.append(
      element('div', 'ec2-Figures', this._cpu.node, this._memory.node),
      element('dl', 'ec2-Lines', this._disk.node, this._network.node),
      this._disks
    );
  }

  update(view: IView): void {
    const telemetry = view.status?.telemetry ?? null;
    this.setShown(telemetry !== null);
    if (!telemetry) {
      return;
    }
    const { trans } = this;
    const name = view.status?.instance_type || trans.__('Machine');
    const { cpu_count: cores } = telemetry;
    setText(
      this.heading,
      cores ? `${name} · ${trans._n('%1 core', '%1 cores', cores, cores)}` : name
    );
    this._cpu.setValue(percentText(telemetry.cpu_percent));
    const { memory_used_mib: used, memory_total_mib: total } = telemetry;
    this._memory.setValue(memoryText(used, total, trans));
    this._writeDiskAndNetwork(telemetry);
    this._writeDisks(view.status?.disks ?? []);
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
    const { trans } = this;
    const { disk_read_mib_per_s: read, disk_write_mib_per_s: written } = telemetry;
    const { disk_used_mib: used, disk_total_mib: total } = telemetry;
    const { network_in_mib_per_s: received, network_out_mib_per_s: sent } = telemetry;
    const isKnown = typeof used === 'number' && typeof total === 'number';
    this._disk.write(
      isKnown ? memoryText(used, total, trans) : '',
      ratesText(read, written, trans.__('read'), trans.__('written'), trans)
    );
    this._network.write(ratesText(received, sent, trans.__('in'), trans.__('out'), trans), '');
  }

  /** How full each disk is; the lines stay, so that nothing moves. */
  private _writeDisks(disks: readonly IDiskUse[]): void {
    const { trans } = this;
    const seen = new Set<string>();
    for (const disk of disks) {
      const name = diskName(disk, trans);
      seen.add(name);
      let line = this._diskLines.get(name);
      if (!line) {
        line = new Line(name);
        this._diskLines.set(name, line);
        this._disks.append(line.node);
      }
      const where = disk.is_writable ? disk.path : trans.__('%1, read-only', disk.path);
      line.write(diskUse(disk, trans), where);
    }
    for (const [name, line] of this._diskLines) {
      if (!seen.has(name)) {
        line.write('', '');
      }
    }
  }

  private readonly _cpu: MetricChart;
  private readonly _memory: MetricChart;
  private readonly _disk: Line;
  private readonly _disks = element('dl', 'ec2-Lines');
  private readonly _diskLines = new Map<string, Line>();
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
