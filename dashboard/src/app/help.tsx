import './help.css';
import { Dialog } from '../ui/dialog.tsx';
import { overlay } from './keys.ts';
import { pages } from './pages.ts';

const general = [
  ['/', 'Search on this page'],
  ['j k', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['Space', 'Pause live rows'],
  ['Esc', 'Close'],
  ['Ctrl+K', 'Go to a page or an id'],
  ['?', 'This list'],
] as const;

export function Help() {
  const ofPages = pages.flatMap(({ letter, title }) => (letter === undefined ? [] : [[`g ${letter}`, title] as const]));
  const close = () => {
    overlay.value = 'none';
  };
  return (
    <Dialog title="Keys" onClose={close}>
      <dl class="help">
        {[...general, ...ofPages].map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
