import type { IDisposable } from '@lumino/disposable';

/** Pixels of JupyterLab's toasts, with a margin on both sides. */
const TOAST_PX = 340;

const GAP_PX = 8;

const CLASS = 'ec2-mod-besidePanel';
const DISTANCE = '--ec2-beside-panel';

/** Keeps JupyterLab's toasts, which are at the bottom right of the window, beside a sidebar there. */
export class ToastsBeside implements IDisposable {
  constructor(private readonly _node: HTMLElement) {}

  /** The node is shown, hidden, or has another size. */
  update(): void {
    const { body, documentElement } = document;
    const width = documentElement.clientWidth;
    const { left, right } = this._node.getBoundingClientRect();
    const isThere = right > left && right > width - TOAST_PX;
    const hasRoom = left > TOAST_PX;
    body.classList.toggle(CLASS, !this._isDisposed && isThere && hasRoom);
    body.style.setProperty(DISTANCE, `${Math.ceil(width - left) + GAP_PX}px`);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    document.body.classList.remove(CLASS);
    document.body.style.removeProperty(DISTANCE);
  }

  private _isDisposed = false;
}
