import type { IThemeManager } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import type { ClusterActions } from '../commands/clusterActions.js';
import type { ClusterStart } from '../commands/clusterStart.js';
import type { ServerActions } from '../commands/serverActions.js';
import { LiveRegion } from './liveRegion.js';
import { ClusterSection } from './clusterSection.js';
import { CostSection } from './costSection.js';
import { sentences, troubleSentences } from '../text/serverText.js';
import { element, fill, setAttribute, setText } from '../dom.js';
import { GpuSection } from './gpuSection.js';
import type { ClusterModel } from '../model/clusterModel.js';
import type { SettingsModel } from '../model/settingsModel.js';
import type { HistoryModel } from '../model/historyModel.js';
import { InstanceSection } from './instanceSection.js';
import type { IView, StatusModel } from '../model/statusModel.js';
import type { WorkerOpener } from './workerOpener.js';
import { colouredState, stateOf } from '../model/state.js';
import type { Section } from './section.js';
import { SessionSection } from './sessionSection.js';
import { ToastsBeside } from './toastsBeside.js';
import { StopSection } from './stopSection.js';
import { WorkerSection } from './workerSection.js';

/** The sidebar: what this server costs, what it does and who uses it, and when it stops. */
export class Panel extends Widget {
  constructor(options: Panel.IOptions) {
    const { model, history, cluster, actions, opener, settings, themes, trans } = options;
    super();
    this._model = model;
    this._history = history;
    this._clusterModel = cluster;
    this._trans = trans;
    this.addClass('ec2-Panel');
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('This server'));
    this._liveRegion = new LiveRegion(trans);
    this._cost = new CostSection(trans);
    this._gpus = new GpuSection(settings, trans);
    this._machine = new InstanceSection(trans);
    this._workers = new WorkerSection(opener, trans);
    this._cluster = new ClusterSection({
      model: cluster,
      server: actions,
      actions: options.clusterActions,
      start: options.clusterStart,
      trans
    });
    this._session = new SessionSection(opener, trans);
    this._stop = new StopSection({ actions, opener, trans });
    const sections = this._sections();
    this.node.append(
      this._liveRegion.node,
      this._troubles,
      ...sections.map(section => section.node)
    );
    model.changed.connect(this._onChanged, this);
    settings.changed.connect(this._onChanged, this);
    cluster.changed.connect(this._onChanged, this);
    history.changed.connect(this._onHistory, this);
    themes?.themeChanged.connect(this._onTheme, this);
  }

  override dispose(): void {
    this._beside.dispose();
    this._gpus.dispose();
    this._machine.dispose();
    super.dispose();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.node.focus();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._model.refresh();
    this._history.refresh();
    this._clusterModel.refresh();
    this._beside.update();
    this.update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._beside.update();
  }

  protected override onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this._beside.update();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    const view = withoutPastUse(this._model.view);
    const state = colouredState(view);
    setAttribute(this.node, 'data-state', state);
    // Of a sleep that the reader chose, the section of its stop says all.
    const known = state === 'asleep' ? [] : troubleSentences(view, this._trans);
    const troubles = view.status ? known : sentences(view, this._trans);
    fill(
      this._troubles,
      troubles.filter(Boolean),
      () => element('p'),
      (node, text) => setText(node, text)
    );
    for (const section of this._sections()) {
      section.update(view);
    }
    this._liveRegion.update(view);
  }

  /** From the top. */
  private _sections(): (Section & { update(view: IView): void })[] {
    return [
      this._session,
      this._cost,
      this._gpus,
      this._workers,
      this._cluster,
      this._machine,
      this._stop
    ];
  }

  private _onChanged(): void {
    if (this.isVisible) {
      this.update();
    }
  }

  private _onHistory(): void {
    const { history } = this._history;
    if (history && this.isVisible) {
      this._gpus.setHistory(history);
      this._machine.setHistory(history);
    }
  }

  private _onTheme(): void {
    this._gpus.recolour();
    this._machine.recolour();
  }

  private readonly _model: StatusModel;
  private readonly _history: HistoryModel;
  private readonly _trans: TranslationBundle;
  private readonly _liveRegion: LiveRegion;
  private readonly _troubles = element('div', 'ec2-Panel-troubles');
  private readonly _cost: CostSection;
  private readonly _gpus: GpuSection;
  private readonly _machine: InstanceSection;
  private readonly _workers: WorkerSection;
  private readonly _clusterModel: ClusterModel;
  private readonly _cluster: ClusterSection;
  private readonly _session: SessionSection;
  private readonly _stop: StopSection;
  private readonly _beside = new ToastsBeside(this.node);
}

export namespace Panel {
  export interface IOptions {
    model: StatusModel;
    history: HistoryModel;
    cluster: ClusterModel;
    clusterActions: ClusterActions;
    clusterStart: ClusterStart;
    actions: ServerActions;
    opener: WorkerOpener;
    settings: SettingsModel;
    themes: IThemeManager | null;
    trans: TranslationBundle;
  }
}

/** A stopped server uses nothing: what was measured last is not shown as if it still held. */
function withoutPastUse(view: IView): IView {
  return view.status && stateOf(view).kind === 'stopped'
    ? { ...view, status: { ...view.status, telemetry: null } }
    : view;
}
