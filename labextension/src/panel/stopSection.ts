import type { TranslationBundle } from '@jupyterlab/translation';

import type { ServerActions } from '../commands/serverActions.js';
import { keepLabel, sharedSentence } from '../text/serverText.js';
import { element, fill, setAttribute, setText, show } from '../dom.js';
import { duration, time } from '../text/format.js';
import type { IView } from '../model/statusModel.js';
import type { WorkerOpener } from './workerOpener.js';
import {
  choices,
  endLabels,
  keepNote,
  oneLimit,
  policySentences,
  savedByStopping,
  stopText
} from '../text/stopText.js';
import { continues, continuesSoon, sleeps } from '../text/sleepText.js';
import { Section } from './section.js';
import { type IKeep, keepChoices, stateOf } from '../model/state.js';
import type { INotebookStatus } from '../api/wire/index.js';

/** When this server stops and why it does not now; what can be done about it. */
export class StopSection extends Section {
  constructor({ actions, opener, trans }: StopSection.IOptions) {
    super(trans.__('When it stops'));
    this._actions = actions;
    this._opener = opener;
    this._trans = trans;
    this._bar.append(element('div', 'ec2-Bar-part'));
    this._stop = button(() => void actions.stop());
    this._sleep = button(() => void actions.sleep());
    this._continue = button(() => void actions.continueElsewhere());
    setText(this._continue, trans.__('Continue on…'));
    this._jump = button(() => this._opener.openNotebook(this._path));
    this._jump.className = 'ec2-Link';
    this._select.className = 'ec2-Choice-select';
    this._select.addEventListener('change', () => void this._choose());
    this._choice.append(element('span', '', trans.__('Stop after')), this._select);
    this._rules.append(element('summary', '', trans.__('All idle rules')), this._ruleList);
    this.node.classList.add('ec2-StopSection');
    this._keep.append(element('span', 'ec2-Keep-title', trans.__('Keep until')), this._keeps);
    this._keep.setAttribute('role', 'group');
    this._keep.setAttribute('aria-label', trans.__('Keep until'));
    const buttons = element('div', 'ec2-Buttons', this._sleep, this._continue, this._stop);
    const facts = element('div', 'ec2-Stop-facts', this.heading, this._headline, this._bar);
    facts.append(this._sentence, this._jump, this._kept);
    // What can be done stays in reach, and nothing else: the rest would cover the panel.
    this._inReach.append(this._keep, buttons);
    this.node.append(facts, this._inReach, this._choice, this._rule, this._rules);
  }

  update(view: IView): void {
    const trans = this._trans;
    const status = view.status;
    this.setShown(status !== null && (status.managed || status.idleness !== null));
    if (!status) {
      return;
    }
    const hasStopped = stateOf(view).kind === 'stopped';
    const isMoving = continues(status.stop) || continuesSoon(status);
    const ending = sleeps(status) ? trans.__('When it sleeps') : trans.__('When it stops');
    const coming = isMoving ? trans.__('When it moves') : ending;
    const gone = view.end?.asleep ? trans.__('Why it sleeps') : trans.__('Why it stopped');
    const when = hasStopped ? gone : coming;
    setText(this.heading, status.managed ? when : trans.__('Activity'));
    const text = stopText(view, trans);
    setText(this._headline, text.headline);
    show(this._headline, text.headline !== '');
    setAttribute(this.node, 'data-urgent', `${text.urgent}`);
    show(this._bar, text.passed !== null);
    const passed = Math.min(100, Math.max(0, text.passed ?? 0)).toFixed(1);
    setAttribute(this._bar.firstElementChild as Element, 'style', `width: ${passed}%`);
    setText(this._sentence, text.sentence);
    setText(this._kept, text.kept || sharedSentence(status, trans));
    show(this._kept, this._kept.textContent !== '');
    this._writeJump(status);
    this._writeButtons(view, text.urgent);
    this._writeChoice(status, hasStopped);
    this._writePolicy(status, hasStopped);
  }

  private _writeJump(status: INotebookStatus): void {
    this._path = status.idleness?.busy_path ?? '';
    show(this._jump, this._path !== '');
    setText(this._jump, this._trans.__('Go to %1', this._path));
  }

  private _writeButtons(view: IView, urgent: boolean): void {
    const { _trans: trans, _actions: actions } = this;
    const offered = actions.available ? keepChoices(view) : [];
    show(this._inReach, offered.length > 0 || actions.available);
    show(this._keep, offered.length > 0);
    show(this._stop, actions.available);
    show(this._sleep, actions.maySleep);
    show(this._continue, actions.maySleep);
    const main = urgent ? offered.find(({ changes }) => changes) : undefined;
    fill(
      this._keeps,
      offered,
      () => button(),
      (node, choice) => this._writeKeep(node as HTMLButtonElement, view, choice, choice === main)
    );
    this._sleep.classList.toggle('jp-mod-accept', main === undefined);
    const { sleep, stop } = endLabels(savedByStopping(view), actions.maySleep, trans);
    setText(this._sleep, sleep);
    setText(this._stop, stop);
  }

  private _writeKeep(node: HTMLButtonElement, view: IView, choice: IKeep, isMain: boolean): void {
    const trans = this._trans;
    setText(node, time(choice.until));
    setAttribute(node, 'aria-label', keepLabel(choice.until, trans));
    setAttribute(node, 'title', keepNote(view, choice, trans));
    // Not `disabled`: the one that has just been pressed keeps the focus, and says why it is off.
    setAttribute(node, 'aria-disabled', `${!choice.changes}`);
    node.classList.toggle('jp-mod-accept', isMain);
    node.onclick = choice.changes ? () => void this._actions.keep(choice.until) : null;
  }

  private _writeChoice(status: INotebookStatus, hasStopped: boolean): void {
    const offered = hasStopped ? [] : choices(status);
    show(this._choice, offered.length > 0);
    if (offered.length === 0 || !status.idle_policy) {
      return;
    }
    const limit = oneLimit(status.idle_policy);
    const key = [limit === null, ...offered].join();
    const isNew = this._offered !== key;
    if (isNew) {
      this._offered = key;
      const options = offered.map(
        seconds =>
          new Option(this._trans.__('%1 idle', duration(seconds * 1000, this._trans)), `${seconds}`)
      );
      if (limit === null) {
        const unchosen = new Option(this._trans.__('the default'), '');
        unchosen.disabled = true;
        options.unshift(unchosen);
      }
      this._select.replaceChildren(...options);
    }
    const holds = limit === null ? '' : `${limit}`;
    // The limit may differ from what was asked for; until it is reported, the choice stays.
    const isChanged = holds !== this._chosen;
    this._chosen = holds;
    if (isNew || isChanged || document.activeElement !== this._select) {
      this._select.value = this._chosen;
    }
  }

  private async _choose(): Promise<void> {
    if (!(await this._actions.chooseIdle(Number(this._select.value)))) {
      this._select.value = this._chosen;
    }
  }

  private _writePolicy(status: INotebookStatus, hasStopped: boolean): void {
    const trans = this._trans;
    const policy = status.managed && !hasStopped ? status.idle_policy : null;
    const [first = '', ...others] = policy ? policySentences(policy, trans) : [];
    setText(
      this._rule,
      status.managed
        ? first
        : trans.__('This server is not stopped from here: its idle policy is set elsewhere.')
    );
    show(this._rules, others.length > 0);
    fill(
      this._ruleList,
      others,
      () => element('li'),
      (node, sentence) => setText(node, sentence)
    );
  }

  private readonly _actions: ServerActions;
  private readonly _opener: WorkerOpener;
  private readonly _trans: TranslationBundle;
  private readonly _headline = element('p', 'ec2-Stop-headline');
  private readonly _bar = element('div', 'ec2-Bar ec2-Stop-bar');
  private readonly _sentence = element('p', 'ec2-Stop-sentence');
  private readonly _kept = element('p', 'ec2-Quiet');
  private readonly _inReach = element('div', 'ec2-Stop');
  private readonly _keep = element('div', 'ec2-Keep');
  private readonly _keeps = element('div', 'ec2-Keep-choices');
  private readonly _stop: HTMLButtonElement;
  private readonly _sleep: HTMLButtonElement;
  private readonly _continue: HTMLButtonElement;
  private readonly _jump: HTMLButtonElement;
  private readonly _choice = element('label', 'ec2-Choice');
  private readonly _select = element('select');
  private readonly _rule = element('p', 'ec2-Quiet');
  private readonly _rules = element('details', 'ec2-Rules');
  private readonly _ruleList = element('ul');
  private _path = '';
  private _offered = '';
  private _chosen = '';
}

export namespace StopSection {
  export interface IOptions {
    actions: ServerActions;
    opener: WorkerOpener;
    trans: TranslationBundle;
  }
}

function button(onClick: (() => void) | null = null): HTMLButtonElement {
  const made = element('button', 'jp-mod-styled ec2-Button');
  made.type = 'button';
  made.onclick = onClick;
  return made;
}
