import type { TranslationBundle } from '@jupyterlab/translation';

import { element, fill, setAttribute, setText, show } from '../dom.js';
import { shownWorkers, workerName, workerUse } from '../text/instanceText.js';
import type { IView } from '../model/statusModel.js';
import type { WorkerOpener } from './workerOpener.js';
import { Section } from './section.js';
import type { IWorker } from '../api/wire/index.js';

/** Who uses the GPU and the CPU. A press on a name opens the notebook or terminal. */
export class WorkerSection extends Section {
  constructor(
    private readonly opener: WorkerOpener,
    private readonly trans: TranslationBundle
  ) {
    super(trans.__('Used by'));
    this.node.append(this._list, this._more);
  }

  update(view: IView): void {
    const telemetry = view.status?.telemetry ?? null;
    const { shown, more } = shownWorkers(telemetry?.workers ?? []);
    this.setShown(shown.length > 0);
    const gpus = telemetry?.gpus.length ?? 0;
    fill(this._list, shown, newWorker, (node, worker) => this._write(node, worker, gpus));
    show(this._more, more > 0);
    setText(this._more, this.trans._n('and %1 more', 'and %1 more', more, more));
  }

  private _write(node: HTMLElement, worker: IWorker, gpus: number): void {
    const [link, plain, use] = node.children as unknown as HTMLButtonElement[];
    const name = workerName(worker, this.trans);
    const canOpen = this.opener.canOpen(worker);
    show(link, canOpen);
    show(plain, !canOpen);
    const shown = canOpen ? link : plain;
    setText(shown, name);
    setAttribute(shown, 'title', worker.name);
    link.onclick = () => this.opener.open(worker);
    setText(use, workerUse(worker, gpus, this.trans));
  }

  private readonly _list = element('ul', 'ec2-Lines');
  private readonly _more = element('p', 'ec2-Quiet');
}

function newWorker(): HTMLElement {
  const link = element('button', 'ec2-Link ec2-Worker-name');
  link.type = 'button';
  return element(
    'li',
    'ec2-Line ec2-Worker',
    link,
    element('span', 'ec2-Worker-name'),
    element('span', 'ec2-Line-value')
  );
}
