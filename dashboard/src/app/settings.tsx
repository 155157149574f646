import './settings.css';
import { useMemo, useState } from 'preact/hooks';
import { forgetKey } from '../api/session-key.ts';
import { type Theme, theme, themes } from '../settings/theme.ts';
import { browserZone, chosenZone, knownZones, timeZone } from '../settings/time-zone.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { SelectField } from '../ui/fields.tsx';
import { overlay } from './keys.ts';

/** Search, keys, time zone, theme, and the key. */
export function Settings() {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="settings">
      <Button keyShortcut="Control+K Meta+K" onClick={() => open('palette')} title="Ctrl+K">
        Go to…
      </Button>
      <Button look="quiet" onClick={() => setOpen(true)} title={`Times are in ${timeZone.value}`}>
        <span aria-hidden="true">⚙</span>
        <span class="settings-zone">{timeZone.value.replaceAll('_', ' ')}</span>
        <span class="visually-hidden">: time zone and other settings</span>
      </Button>
      <Button look="quiet" label="Keys" keyShortcut="?" title="Keys (?)" onClick={() => open('help')}>
        <span aria-hidden="true">?</span>
      </Button>
      {isOpen && <SettingsDialog onClose={() => setOpen(false)} />}
    </div>
  );
}

function open(name: 'palette' | 'help'): void {
  overlay.value = name;
}

const themeTitles: Readonly<Record<Theme, string>> = { system: 'As the system', light: 'Light', dark: 'Dark' };

function SettingsDialog({ onClose }: { readonly onClose: () => void }) {
  const zones = useMemo(
    () => [
      { value: '', title: `As the browser (${browserZone})` },
      ...knownZones().map((zone) => ({ value: zone, title: zone })),
    ],
    [],
  );
  return (
    <Dialog title="Settings" onClose={onClose}>
      <SelectField
        label="Time zone"
        value={chosenZone.value}
        choices={zones}
        onChange={(zone) => {
          chosenZone.value = zone;
        }}
      />
      <SelectField
        label="Theme"
        value={theme.value}
        choices={themes.map((name) => ({ value: name, title: themeTitles[name] }))}
        onChange={(name) => {
          theme.value = name;
        }}
      />
      <div>
        <Button onClick={() => forgetKey()}>Remove the key from this browser</Button>
      </div>
    </Dialog>
  );
}
