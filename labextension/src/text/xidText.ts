/**
 * What the numbers of NVIDIA's Xid errors mean, from NVIDIA's "Xid Catalog". Pure.
 *
 * `ec2spawner/core/instances/gpu_xid_errors.py` holds how grave each one is.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

/** What has happened and, where that does not depend on who looks after the machine, what to do. */
export function xidText(xid: number, trans: TranslationBundle): string {
  return trans.__('Xid %1: %2', xid, meaning(xid, trans));
}

function meaning(xid: number, trans: TranslationBundle): string {
  switch (xid) {
    case 13:
      return trans.__('a program on it made an invalid operation. Restart its kernel.');
    case 31:
      return trans.__('a program on it accessed invalid memory. Restart its kernel.');
    case 43:
      return trans.__('a program on it stopped after its own error. Restart its kernel.');
    case 45:
      return trans.__('a program on it was terminated. Restart its kernel.');
    case 48:
      return trans.__('its memory has an uncorrectable error.');
    case 61:
    case 62:
      return trans.__('its microcontroller has halted.');
    case 63:
      return trans.__(
        'a failing memory row was replaced by a spare one. Running programs continue.'
      );
    case 64:
      return trans.__('failing memory could not be replaced.');
    case 68:
      return trans.__('its video processor failed on a program. Restart its kernel.');
    case 74:
      return trans.__('its NVLink connection to other GPUs failed.');
    case 79:
      return trans.__('it has fallen off the bus.');
    case 94:
      return trans.__(
        'the memory of one program failed and that program ended. Restart its kernel.'
      );
    case 95:
      return trans.__('its memory failed and the error could not be contained.');
    case 109:
      return trans.__('a program on it did not yield in time. Restart its kernel.');
    case 119:
      return trans.__('its system processor (GSP) does not respond.');
    case 120:
      return trans.__('its system processor (GSP) failed.');
    default:
      return trans.__("see NVIDIA's list of Xid errors.");
  }
}
