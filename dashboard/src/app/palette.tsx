import './palette.css';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { isGlobal } from '../api/access.ts';
import { type Loaded, useAnswer } from '../api/use-answer.ts';
import { Pieces } from '../content/text/pieces.tsx';
import { formatTime } from '../format/times.ts';
import { type Theme, theme, themes } from '../settings/theme.ts';
import { browserZone, chosenZone, knownZones, timeZone } from '../settings/time-zone.ts';
import { Dialog } from '../ui/dialog.tsx';
import { overlay } from './keys.ts';
import { pages } from './pages.ts';
import { type Command, canBeId, inGroups, matching } from './palette-commands.ts';
import { recentExchanges } from './recent-exchanges.ts';
import { hrefOf, navigate } from './router.ts';

/** Pages, exchanges by any id, and settings. WAI-ARIA Authoring Practices, editable combobox with a list. */
export function Palette() {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const wanted = text.trim();
  const found = useExchangesOf(wanted);
  const commands = commandsFor(wanted, found);
  const current = Math.min(at, commands.length - 1);
  const close = () => {
    overlay.value = 'none';
  };
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    close();
    command.run();
  };
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [current, commands.length]);
  const onKeyDown = (event: KeyboardEvent) => {
    const last = commands.length - 1;
    if (event.isComposing) return;
    if (event.key === 'ArrowDown') setAt(current === last ? 0 : current + 1);
    else if (event.key === 'ArrowUp') setAt(current <= 0 ? last : current - 1);
    else if (event.key === 'PageDown') setAt(Math.min(last, current + 8));
    else if (event.key === 'PageUp') setAt(Math.max(0, current - 8));
    else if (event.key === 'Enter') run(commands[current]);
    else return;
    event.preventDefault();
  };
  const active = commands[current];
  return (
    <Dialog title="Go to" onClose={close}>
      <label class="field-label" for={`${id}-text`}>
        A page, a setting, or an id of an exchange, request, response, item, session or key
      </label>
      <input
        id={`${id}-text`}
        class="input palette-input"
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={active === undefined ? undefined : `${id}-${active.id}`}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        // The dialog gives the focus to the first element with this attribute.
        autofocus
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <p class="palette-state" role="status">
        {stateOf(wanted, found, commands.length)}
      </p>
      <div class="palette" role="listbox" id={`${id}-list`} aria-label="Commands" ref={list}>
        {inGroups(commands).map(({ group, commands: ofGroup }, number) => (
          <div key={group} role="group" aria-labelledby={`${id}-group-${number}`}>
            <p class="palette-group" role="presentation" id={`${id}-group-${number}`}>
              {group}
            </p>
            {ofGroup.map((command) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys
              // biome-ignore lint/a11y/useFocusableInteractive: the field has the focus
              <div
                key={command.id}
                id={`${id}-${command.id}`}
                class="palette-option"
                role="option"
                aria-selected={command === active}
                onClick={() => run(command)}
              >
                <span>
                  <Pieces text={command.title} />
                </span>
                {command.detail !== undefined && (
                  <span class="palette-detail">
                    <Pieces text={command.detail} />
                  </span>
                )}
              </div>
            ))}
          </div>
        ))}
      </div>
    </Dialog>
  );
}

const DEBOUNCE_MS = 200;
const MAX_EXCHANGES = 8;

type Found = Loaded<{
  readonly entries: readonly {
    readonly id: string;
    readonly timestamp: string;
    readonly status_code: number;
    readonly requested_model?: string;
    readonly user_path: string;
  }[];
}>;

/** The requests of an id, once it has not changed for a moment. */
function useExchangesOf(text: string): Found {
  const [asked, setAsked] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setAsked(canBeId(text) ? text : ''), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const isAsked = asked !== '' && asked === text;
  const answer = useAnswer('/admin/audit/log', { id: asked, limit: MAX_EXCHANGES, total: false }, { enabled: isAsked });
  return isAsked ? answer : { ...answer, data: undefined, error: undefined, isLoading: canBeId(text) };
}

function stateOf(text: string, { data, error, isLoading }: Found, count: number): string {
  if (canBeId(text)) {
    if (isLoading) return 'Searching for this id';
    if (error !== undefined) return `The id was not searched: ${error.message}`;
    if (data?.entries.length === 0) return 'No request has this id.';
  }
  return `${count} ${count === 1 ? 'command' : 'commands'}`;
}

const themeTitles: Readonly<Record<Theme, string>> = { system: 'As the system', light: 'Light', dark: 'Dark' };
const MAX_ZONES = 8;

function commandsFor(text: string, found: Found): Command[] {
  const ofIds = (found.data?.entries ?? []).map(
    (entry): Command => ({
      ...{ id: `found-${entry.id}`, group: 'Requests with this id', title: entry.id },
      detail: [formatTime(entry.timestamp), entry.status_code, entry.requested_model, entry.user_path]
        .filter(Boolean)
        .join(' · '),
      run: () => navigate(hrefOf(`/exchange/${encodeURIComponent(entry.id)}`)),
    }),
  );
  const offered = pages.filter(
    ({ group, globalOnly }) => group !== undefined && (globalOnly !== true || isGlobal.value),
  );
  const ofPages = offered.map(
    ({ name, title, path, letter }): Command => ({
      ...{ id: `page-${name}`, group: 'Pages', title, words: 'page go to' },
      ...(letter === undefined ? {} : { detail: `g ${letter}` }),
      run: () => navigate(hrefOf(path)),
    }),
  );
  const recent = recentExchanges.value.map(
    (one): Command => ({
      ...{ id: `recent-${one}`, group: 'Recent exchanges', title: decoded(one) },
      run: () => navigate(hrefOf(`/exchange/${one}`)),
    }),
  );
  const settings = [...themeCommands(), ...(text === '' ? [] : zoneCommands(text)), helpCommand];
  return [...ofIds, ...matching([...ofPages, ...recent, ...settings], text), ...searchCommands(text)];
}

function searchCommands(text: string): Command[] {
  if (text === '') return [];
  const list: Command = {
    ...{ id: 'search', group: 'Audit', title: `Search requests for “${text}”` },
    run: () => navigate(hrefOf('/audit', { search: text })),
  };
  if (!canBeId(text)) return [list];
  const byId = { ...list, id: 'search-id', title: `List requests with the id “${text}”` };
  return [{ ...byId, run: () => navigate(hrefOf('/audit', { id: text })) }, list];
}

function themeCommands(): Command[] {
  return themes.map((name) => ({
    ...{ id: `theme-${name}`, group: 'Settings', title: `Theme: ${themeTitles[name]}`, words: 'colours mode' },
    ...(theme.value === name ? { detail: 'current' } : {}),
    run: () => {
      theme.value = name;
    },
  }));
}

/** The browser's zone has the value ''. */
function zoneCommands(text: string): Command[] {
  const commands = ['', ...knownZones()].map((zone): Command => {
    const title = zone === '' ? `Time zone: as the browser (${browserZone})` : `Time zone: ${zone}`;
    const isCurrent = zone === chosenZone.value || (zone !== '' && zone === timeZone.value && chosenZone.value === '');
    return {
      ...{ id: `zone-${zone}`, group: 'Settings', title, words: zone.replaceAll('_', ' ') },
      ...(isCurrent ? { detail: 'current' } : {}),
      run: () => {
        chosenZone.value = zone;
      },
    };
  });
  return matching(commands, text).slice(0, MAX_ZONES);
}

const helpCommand: Command = {
  ...{ id: 'help', group: 'Settings', title: 'Keys', words: 'keyboard shortcuts help', detail: '?' },
  run: () => {
    overlay.value = 'help';
  },
};

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
