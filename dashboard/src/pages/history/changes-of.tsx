/** The changes of one subject, for its page. What it needs is loaded when it is first shown. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SubjectChangesProps } from './subject-changes.tsx';

let loaded: ComponentType<SubjectChangesProps> | undefined;

export function ChangesOf({ subject }: SubjectChangesProps) {
  const [component, setComponent] = useState(() => loaded);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    import('./subject-changes.tsx').then(
      ({ SubjectChanges }) => {
        loaded = SubjectChanges;
        setComponent(() => SubjectChanges);
      },
      () => setFailed(true),
    );
  }, []);
  if (failed) return <p role="alert">The changes could not be loaded. Load the document again.</p>;
  const Changes = component;
  return Changes === undefined ? null : <Changes key={subject} subject={subject} />;
}
