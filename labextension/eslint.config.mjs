// The rules of JupyterLab's extension template, and typescript-eslint's for promises and style.
import js from '@eslint/js';
import jupyterPlugin from '@jupyter/eslint-plugin';
import prettier from 'eslint-config-prettier';
import { defineConfig } from 'eslint/config';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default defineConfig([
  { ignores: ['lib', 'node_modules'] },
  { plugins: { jupyter: jupyterPlugin } },
  { files: ['**/*.js', '**/*.mjs', '**/*.ts'], extends: [js.configs.recommended] },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      globals: globals.browser,
      parserOptions: { project: 'tsconfig.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        }
      ],
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-namespace': 'off',
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none' }],
      // An empty text is no text.
      '@typescript-eslint/prefer-nullish-coalescing': [
        'error',
        { ignorePrimitives: { string: true } }
      ],
      // A slot of a signal gets its `this` from `connect`.
      '@typescript-eslint/unbound-method': 'off',
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'prefer-arrow-callback': 'error'
    }
  },
  {
    files: ['src/**/*.ts', 'schema/*.json'],
    extends: [jupyterPlugin.configs.recommended]
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      // All of this extension is 25 kB and at work from the start; the charting library comes later.
      'jupyter/prefer-lazy-imports': ['error', { ignoreImports: ['./*'] }]
    }
  },
  {
    files: ['test/**/*.js', '*.mjs'],
    languageOptions: { globals: globals.node }
  },
  prettier
]);
