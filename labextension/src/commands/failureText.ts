import type { TranslationBundle } from '@jupyterlab/translation';

import { RefusedError } from '../api/request.js';
import { sentenceText } from '../text/sentenceText.js';

/** Why a request has failed: what the server says, or that it says nothing. */
export function failureText(reason: unknown, trans: TranslationBundle): string {
  const sentence = reason instanceof RefusedError ? reason.sentence : null;
  return sentence
    ? sentenceText(sentence, trans)
    : trans.__('The server does not respond. Try again in a moment.');
}
