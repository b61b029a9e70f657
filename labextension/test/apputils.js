/**
 * Import this before a module that shows notifications or dialogs: stubs replace
 * `@jupyterlab/apputils` and `@lumino/widgets`, which need a browser. A test answers dialogs with
 * `globalThis.answerDialog`.
 */
import { register } from 'node:module';

const APPUTILS = `export const Notification = {
  emit: message => message,
  update: () => {},
  dismiss: () => {}
};
const button = defaults => options => ({ accept: true, actions: [], ...defaults, ...options });
export const Dialog = {
  cancelButton: button({ accept: false }),
  okButton: button({ displayType: 'default' }),
  warnButton: button({ displayType: 'warn' })
};
export const showDialog = options => globalThis.answerDialog(options);`;

const WIDGETS = `export class Widget {
  node = { texts: [], appendChild: child => (this.node.texts.push(child), child), append() {} };
  addClass() {}
}`;

const asModule = source => `data:text/javascript,${encodeURIComponent(source)}`;

const STUBS = {
  '@jupyterlab/apputils': asModule(APPUTILS),
  '@lumino/widgets': asModule(WIDGETS)
};

register(
  asModule(`const STUBS = ${JSON.stringify(STUBS)};
    export const resolve = (name, context, next) =>
      STUBS[name] ? { url: STUBS[name], shortCircuit: true } : next(name, context);`)
);
