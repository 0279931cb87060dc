import typescript from '@typescript-eslint/eslint-plugin';

export default [
  { ignores: ['**/lib/', 'jupyter_vram/labextension/', '.venv/', '**/.*/'] },
  ...typescript.configs['flat/recommended-type-checked'].map(config => ({
    ...config,
    files: ['labextension/src/**/*.{ts,tsx}']
  })),
  {
    files: ['labextension/src/**/*.{ts,tsx}'],
    languageOptions: {
      parserOptions: { project: 'labextension/tsconfig.test.json' }
    },
    rules: {
      curly: 'error',
      eqeqeq: 'error',
      // Only client.ts talks to the server, with the settings' own WebSocket.
      'no-restricted-globals': ['error', 'fetch', 'WebSocket', 'EventSource', 'XMLHttpRequest'],
      'prefer-arrow-callback': 'error',
      // A token and its interface, a widget and its options: JupyterLab's own idiom.
      '@typescript-eslint/no-redeclare': 'off',
      '@typescript-eslint/no-namespace': 'off',
      // Lumino's signals take a method and its `this`.
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/naming-convention': [
        'error',
        { selector: 'interface', format: ['PascalCase'], custom: { regex: '^I[A-Z]', match: true } }
      ],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', args: 'after-used' }
      ]
    }
  },
  {
    // Tests take messages apart, and break them, in ways that types would forbid.
    files: ['labextension/src/__tests__/**/*.{ts,tsx}'],
    rules: {
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off'
    }
  }
];
