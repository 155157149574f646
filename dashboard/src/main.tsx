import './styles/tokens.css';
import './styles/base.css';
import { render } from 'preact';
import { App } from './app/app.tsx';
import { followTheme } from './settings/theme.ts';

followTheme();
const root = document.getElementById('app');
if (root === null) throw new Error('The page has no element #app.');
render(<App />, root);
