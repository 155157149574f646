import './history.css';
import { type AdminChange, ChangeEntry } from './change-entry.tsx';
import { useKeyNames } from './key-names.ts';

interface ChangeListProps {
  readonly label: string;
  readonly changes: readonly AdminChange[];
  readonly showSubject?: boolean;
}

export function ChangeList({ label, changes, showSubject = true }: ChangeListProps) {
  const keyNames = useKeyNames();
  return (
    <ol class="history-list" aria-label={label}>
      {changes.map((change) => (
        <ChangeEntry key={change.position} change={change} keyNames={keyNames} showSubject={showSubject} />
      ))}
    </ol>
  );
}
