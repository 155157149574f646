import { defineConfig } from 'vite';

/** Asset URLs are relative: the gateway serves the page at any depth below any base path. */
export default defineConfig({
  base: './',
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    target: 'es2023',
    // An inlined asset would be a data: URL, which the content security policy forbids for anything but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
