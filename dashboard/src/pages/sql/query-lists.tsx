import { useState } from 'preact/hooks';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { ranQueries } from './draft.ts';
import { questions, withoutMarks } from './reference.ts';

interface QueryListProps {
  /** Puts a query into the editor. */
  readonly onChoose: (query: string) => void;
}

/** The questions of the analytics guide. */
export function QuestionList({ onChoose }: QueryListProps) {
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const found = questions.filter(({ title, sql }) => `${title} ${sql}`.toLowerCase().includes(wanted));
  return (
    <div class="sql-queries">
      <TextField label="Search questions" type="search" value={text} onInput={setText} />
      <ul>
        {found.map(({ title, about, sql }) => (
          <li key={title}>
            <Button look="quiet" onClick={() => onChoose(sql)}>
              {title}
            </Button>
            {about !== '' && <p class="sql-note">{withoutMarks(about)}</p>}
          </li>
        ))}
      </ul>
      {found.length === 0 && <p>No question contains this.</p>}
    </div>
  );
}

/** The queries that were run in this browser. */
export function OwnQueries({ onChoose }: QueryListProps) {
  const queries = ranQueries.value;
  return (
    <div class="sql-queries">
      <p class="sql-note">
        This list is kept in this browser only. The gateway records every query with its author, also refused ones:{' '}
        <a href={hrefOf('/history', { subject: 'audit:reads' })}>recorded queries</a>.
      </p>
      <ul>
        {queries.map(({ query, at, rows }) => (
          <li key={query}>
            <Button look="quiet" onClick={() => onChoose(query)}>
              <code>
                <Recorded text={query.replaceAll(/\s+/g, ' ').slice(0, 120)} />
              </code>
            </Button>
            <p class="sql-note">
              <Time at={at} />
              {rows === undefined ? '' : ` · ${formatCount(rows)} ${rows === 1 ? 'row' : 'rows'}`}
            </p>
          </li>
        ))}
      </ul>
      {queries.length === 0 && <p>No query was run here yet.</p>}
      {queries.length > 0 && (
        <div>
          <Button
            onClick={() => {
              ranQueries.value = [];
            }}
          >
            Clear this list
          </Button>
        </div>
      )}
    </div>
  );
}
