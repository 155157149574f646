/** The changes of one subject, for its page. What it needs is loaded when it is first shown. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export interface ChangesOfProps {
  /** As the API has it: `key:<id>`, `user:<path>`, `budget:<path>`, … */
  readonly subject: string;
}

let loaded: ComponentType<ChangesOfProps> | undefined;

export function ChangesOf({ subject }: ChangesOfProps) {
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
