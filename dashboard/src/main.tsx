import './styles/tokens.css';
import './styles/base.css';
import { render } from 'preact';
import { App } from './app/app.tsx';
import { followTheme } from './settings/theme.ts';

followTheme();
// The URLs in the page are relative to its first address, and browsers resolve that of the icon again after navigation.
for (const icon of document.querySelectorAll<HTMLLinkElement>('link[rel="icon"]')) icon.setAttribute('href', icon.href);
const root = document.getElementById('app');
if (root === null) throw new Error('The page has no element #app.');
render(<App />, root);
