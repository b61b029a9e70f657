/**
 * Import this before a module that shows notifications: a stub replaces `@jupyterlab/apputils`,
 * which needs a browser.
 */
import { register } from 'node:module';

const STUB = `export const Notification = {
  emit: message => message,
  update: () => {},
  dismiss: () => {}
};`;

const asModule = source => `data:text/javascript,${encodeURIComponent(source)}`;

register(
  asModule(`export const resolve = (name, context, next) =>
    name === '@jupyterlab/apputils'
      ? { url: ${JSON.stringify(asModule(STUB))}, shortCircuit: true }
      : next(name, context);`)
);
