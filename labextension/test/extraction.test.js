import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import ts from 'typescript';

/** What jupyterlab-translate extracts: these receivers, and these functions with literal texts. */
const RECEIVERS = ['trans', 'this.trans', 'this._trans', 'props.trans', 'this.props.trans'];
const LITERALS = {
  __: [0],
  _n: [0, 1],
  _p: [0, 1],
  _np: [0, 1, 2],
  gettext: [0],
  ngettext: [0, 1],
  pgettext: [0, 1],
  npgettext: [0, 1, 2]
};

const SOURCES = new URL('../src/', import.meta.url);
const files = readdirSync(SOURCES, { recursive: true }).filter(name => name.endsWith('.ts'));

/** Every call for a translation: where it is, and whether the extraction sees it. */
function calls(name) {
  const text = readFileSync(new URL(name, SOURCES), 'utf8');
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.ES2022, true);
  const found = [];
  const visit = node => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { expression: receiver, name: method } = node.expression;
      if (Object.hasOwn(LITERALS, method.text)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart());
        const isVisible =
          RECEIVERS.includes(receiver.getText()) &&
          LITERALS[method.text].every(index => isLiteral(node.arguments[index]));
        found.push({ at: `${name}:${line + 1}`, isVisible });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** As the extraction reads it: one literal, or literals put together by `+`. */
function isLiteral(node) {
  if (!node) {
    return false;
  }
  if (ts.isParenthesizedExpression(node)) {
    return isLiteral(node.expression);
  }
  if (ts.isBinaryExpression(node)) {
    return isLiteral(node.left) && isLiteral(node.right);
  }
  return ts.isStringLiteralLike(node);
}

test('the extraction for translators sees every text', () => {
  const found = files.flatMap(calls);
  assert.ok(found.length > 100, `${found.length} calls`);
  assert.deepEqual(
    found.filter(({ isVisible }) => !isVisible).map(({ at }) => at),
    []
  );
});
