import type { TranslationBundle } from '@jupyterlab/translation';

import type { IClusterStatus } from '../api/wire/index.js';
import type { ClusterActions } from '../commands/clusterActions.js';
import type { ClusterStart } from '../commands/clusterStart.js';
import type { ServerActions } from '../commands/serverActions.js';
import { element, fill, setAttribute, setText, show } from '../dom.js';
import { hasCluster, isPresent, mayStart, workerState } from '../model/cluster.js';
import type { ClusterModel } from '../model/clusterModel.js';
import { stateOf } from '../model/state.js';
import type { IView } from '../model/statusModel.js';
import {
  joinedText,
  problemText,
  rateText,
  rememberedText,
  restartCode,
  type IWorkerText,
  workerText
} from '../text/clusterText.js';
import { ScaleControl } from './scaleControl.js';
import { Section } from './section.js';

/** The list scrolls where it has more. */
const MAX_ROWS = 8;

/** The workers of this server: what they do and cost; how many there are; how to start some. */
export class ClusterSection extends Section {
  constructor({ model, server, actions, start, trans }: ClusterSection.IOptions) {
    super(trans.__('Cluster'));
    this._model = model;
    this._server = server;
    this._trans = trans;
    this._scale = new ScaleControl({ actions, trans });
    this._stop.type = 'button';
    this._stop.onclick = () => void actions.stop();
    setText(this._stop, trans.__('Stop cluster…'));
    this._retry.type = 'button';
    this._retry.onclick = () => void actions.scale(this._model.status?.wanted ?? 0);
    setText(this._retry, trans.__('Try again'));
    this._start.type = 'button';
    this._start.onclick = () => void start.run();
    setText(this._start, trans.__('Start a cluster…'));
    this._list.setAttribute('aria-label', trans.__('Workers'));
    const cost = element('span', 'ec2-Cluster-cost', this._rate, this._mark);
    this.node.append(
      element('p', 'ec2-Line ec2-Cluster-sum', this._joined, cost),
      this._list,
      this._problem,
      this._stale,
      this._remembered,
      this._code,
      this._scale.node,
      this._buttons,
      this._starting
    );
    setText(this._stale, trans.__('The hub does not answer; the workers are shown as last known.'));
  }

  update(view: IView): void {
    const status = this._model.status;
    const isOver = stateOf(view).kind === 'stopped';
    const canStart = status !== null && mayStart(status) && this._server.available;
    this.setShown(status !== null && (hasCluster(status) || canStart) && !isOver);
    show(this._starting, canStart);
    if (status) {
      this._write(status, view);
    }
  }

  private _write(status: IClusterStatus, view: IView): void {
    const trans = this._trans;
    const summary = joinedText(status, trans);
    setText(this._joined, summary);
    const rate = rateText(status, trans);
    setText(this._rate, rate);
    setText(this._mark, rate && ` ${trans.__('estimate')}`);
    show(this._joined.parentElement as HTMLElement, summary !== '');
    const rows = status.workers.map(worker => ({
      ...workerText(worker, view.now, trans),
      kind: workerState(worker)
    }));
    show(this._list, rows.length > 0);
    fill(this._list, rows, newWorker, writeWorker);
    this._list.tabIndex = rows.length > MAX_ROWS ? 0 : -1;
    const problem = problemText(status, trans);
    show(this._problem, problem !== '');
    setText(this._problem, problem);
    setAttribute(this._problem, 'data-level', status.has_given_up ? 'error' : 'info');
    show(this._stale, this._model.isStale && view.phase === 'live');
    const remembered = rememberedText(status, trans);
    show(this._remembered, remembered !== '');
    setText(this._remembered, remembered);
    show(this._code, remembered !== '');
    setText(this._code, restartCode(status));
    const mayChange = this._server.available && status.wanted > 0;
    this._scale.update(mayChange ? status : null);
    show(this._buttons, mayChange && isPresent(status));
    show(this._retry, status.has_given_up);
  }

  private readonly _model: ClusterModel;
  private readonly _server: ServerActions;
  private readonly _trans: TranslationBundle;
  private readonly _scale: ScaleControl;
  private readonly _joined = element('span');
  private readonly _rate = element('span', 'ec2-Line-value');
  private readonly _mark = element('span', 'ec2-Quiet');
  private readonly _list = element('ul', 'ec2-Lines ec2-ClusterWorkers');
  private readonly _problem = element('p', 'ec2-Trouble');
  private readonly _stale = element('p', 'ec2-Quiet');
  private readonly _remembered = element('p', 'ec2-Quiet');
  private readonly _code = element('code', 'ec2-Cluster-code');
  private readonly _retry = element('button', 'jp-mod-styled ec2-Button');
  private readonly _stop = element('button', 'jp-mod-styled ec2-Button');
  private readonly _buttons = element('div', 'ec2-Buttons', this._retry, this._stop);
  private readonly _start = element('button', 'jp-mod-styled ec2-Button');
  private readonly _starting = element('div', 'ec2-Buttons', this._start);
}

export namespace ClusterSection {
  export interface IOptions {
    model: ClusterModel;
    server: ServerActions;
    actions: ClusterActions;
    start: ClusterStart;
    trans: TranslationBundle;
  }
}

function newWorker(): HTMLElement {
  const number = element('span', 'ec2-ClusterWorker-number');
  number.setAttribute('aria-hidden', 'true');
  const spoken = element('span', 'ec2-mod-unseen');
  const name = element('span', '', number, spoken, element('span', 'ec2-ClusterWorker-state'));
  return element(
    'li',
    'ec2-ClusterWorker',
    element('div', 'ec2-Line', name, element('span', 'ec2-Line-value')),
    element('div', 'ec2-Line ec2-Quiet', element('span'), element('span', 'ec2-Line-value'))
  );
}

function writeWorker(node: HTMLElement, text: IWorkerText & { kind: string }): void {
  setAttribute(node, 'data-state', text.kind);
  setAttribute(node, 'title', text.note);
  const [first, second] = node.children as unknown as HTMLElement[];
  const [number, spoken, state] = first.children[0].children;
  setText(number, text.number);
  setText(spoken, `${text.name}, `);
  setText(state, text.state);
  setText(first.children[1], text.gpu);
  setText(second.children[0], text.hardware);
  setText(second.children[1], text.cost);
  show(second, text.hardware !== '' || text.cost !== '');
}
