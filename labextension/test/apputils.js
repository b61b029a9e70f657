/**
 * Import this before a module that shows notifications or dialogs: stubs replace
 * `@jupyterlab/apputils` and `@lumino/widgets`, which need a browser.
 */
import { register } from 'node:module';

const APPUTILS = `export const Notification = {
  emit: message => message,
  update: () => {},
  dismiss: () => {}
};
export const Dialog = {};
export const showDialog = () => {};`;

const WIDGETS = 'export class Widget {}';

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
