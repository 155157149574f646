import './palette.css';
import { useRef, useState } from 'preact/hooks';
import { Dialog } from '../ui/dialog.tsx';
import { TextField } from '../ui/fields.tsx';
import { overlay } from './keys.ts';
import { pages } from './pages.ts';
import { hrefOf, navigate } from './router.ts';

interface Command {
  readonly title: string;
  run(): void;
}

/** Goes to a page, or to the requests that an id belongs to. */
export function Palette() {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const close = () => {
    overlay.value = 'none';
  };
  const commands = commandsFor(text);
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    close();
    command.run();
  };
  return (
    <Dialog title="Go to" onClose={close}>
      <div
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') setAt(Math.min(at + 1, commands.length - 1));
          else if (event.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
          else if (event.key === 'Enter') run(commands[at]);
          else return;
          event.preventDefault();
        }}
      >
        <TextField
          label="Page, or an id of an exchange, request, response, session or key"
          value={text}
          inputRef={field}
          onInput={(value) => {
            setText(value);
            setAt(0);
          }}
        />
        <ul class="palette">
          {commands.map((command, index) => (
            <li key={command.title}>
              <button type="button" aria-current={index === at} onClick={() => run(command)}>
                {command.title}
              </button>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function commandsFor(text: string): readonly Command[] {
  const wanted = text.trim();
  const ofPages = pages
    .filter(({ inNavigation, title }) => inNavigation && title.toLowerCase().includes(wanted.toLowerCase()))
    .map(({ title, path }) => ({ title, run: () => navigate(hrefOf(path)) }));
  if (wanted === '') return ofPages;
  return [
    ...ofPages,
    { title: `Search requests for “${wanted}”`, run: () => navigate(hrefOf('/audit', { search: wanted })) },
  ];
}
