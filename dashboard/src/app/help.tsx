import './help.css';
import { letterKeys } from '../settings/letter-keys.ts';
import { Dialog } from '../ui/dialog.tsx';
import { CheckField } from '../ui/fields.tsx';
import { overlay } from './keys.ts';
import { pages } from './pages.ts';

interface KeyGroup {
  readonly title: string;
  /** Keys that are pressed one after the other or alternatives, and what they do. */
  readonly keys: readonly (readonly [keys: readonly string[], meaning: string])[];
}

const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent);

const groups: readonly KeyGroup[] = [
  {
    title: 'Everywhere',
    keys: [
      [[isApple ? '⌘ K' : 'Ctrl K'], 'Go to a page or an id'],
      [['/'], 'Search on this page'],
      [['?'], 'This list'],
      [['Esc'], 'Close'],
    ],
  },
  {
    title: 'Lists',
    keys: [
      [['j', '↓'], 'Next row'],
      [['k', '↑'], 'Previous row'],
      [['Enter'], 'Open the row'],
      [['Space'], 'Pause or resume live rows'],
    ],
  },
  {
    title: 'Recorded JSON',
    keys: [
      [['↑', '↓'], 'Move between values'],
      [['→', '←'], 'Expand and collapse'],
      [['*'], 'Expand all below'],
      [['Home', 'End'], 'First and last value'],
    ],
  },
];

/** Every key. The page says so itself, so that no document is needed. */
export function Help() {
  const ofPages: KeyGroup = {
    title: 'Pages',
    keys: pages.flatMap(({ letter, title }) => (letter === undefined ? [] : [[[`g ${letter}`], title] as const])),
  };
  const close = () => {
    overlay.value = 'none';
  };
  return (
    <Dialog title="Keys" onClose={close}>
      <div class="help">
        {[...groups, ofPages].map(({ title, keys }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([alternatives, meaning]) => (
                <div key={meaning}>
                  <dt>
                    {alternatives.map((one) => (
                      <kbd key={one}>{one}</kbd>
                    ))}
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <CheckField
        label="Keys without Ctrl, Alt or ⌘ act on the page"
        checked={letterKeys.value}
        onChange={(on) => {
          letterKeys.value = on;
        }}
      />
    </Dialog>
  );
}
