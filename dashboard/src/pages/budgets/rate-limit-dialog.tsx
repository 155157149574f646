import { useState } from 'preact/hooks';
import { isGlobal } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import type { LimitRow } from './budget-row.ts';
import { createRule } from './create-rule.ts';
import { readLimit } from './current-limit.ts';
import { PeriodField, secondsOf } from './period-field.tsx';
import { limitPeriods, periodTitle } from './periods.ts';
import { canonicalSubject, type RuleName } from './rule-name.ts';

interface RateLimitDialogProps {
  /** Undefined: a new rate limit. */
  readonly row?: LimitRow;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function RateLimitDialog({ row, onClose, onDone }: RateLimitDialogProps) {
  const [scope, setScope] = useState<LimitRow['scope']>(row?.scope ?? 'user_path');
  const [subject, setSubject] = useState(row?.subject ?? '');
  const [period, setPeriod] = useState(String(row?.period_seconds ?? limitPeriods[0]?.value));
  const [requests, setRequests] = useState(String(row?.max_requests ?? ''));
  const [tokens, setTokens] = useState(String(row?.max_tokens ?? ''));
  const name: RuleName = { scope, subject: canonicalSubject(scope, subject), period_seconds: secondsOf(period) };
  const isConcurrent = name.period_seconds === 0;
  const version = { ...name, ...maximaOf(requests, isConcurrent ? '' : tokens) };
  const send = (ifMatch: string | undefined) => {
    const { period_seconds, subject: canonical, ...limits } = version;
    const json = { ...limits, scope, subject: canonical, limit_key: { period_seconds } };
    return sendChange({ method: 'PUT', of: '/admin/rate-limits', ifMatch, json });
  };
  const title =
    row === undefined
      ? 'Create a rate limit'
      : `Edit the rate limit of ${row.subject} per ${periodTitle(row.period_seconds, row.period_label)}`;
  return (
    <ChangeDialog
      title={title}
      submitLabel={row === undefined ? 'Create the rate limit' : 'Save the rate limit'}
      revision={row?.revision}
      save={(ifMatch) =>
        row === undefined && ifMatch === undefined
          ? createRule(
              { name, readRules: async () => (await getAnswer('/admin/rate-limits')).rate_limits, send },
              `rate-limit:${scope}:${name.subject}`,
            )
          : send(ifMatch)
      }
      mine={() => version}
      readCurrent={() => readLimit(name)}
      canSubmit={subject.trim() !== '' && name.period_seconds >= 0 && (requests !== '' || tokens !== '')}
      onClose={onClose}
      onDone={onDone}
    >
      {row === undefined && (
        <>
          {isGlobal.value && (
            <SelectField
              label="Limits the requests of"
              value={scope}
              choices={[
                { value: 'user_path', title: 'A user path and all paths below it' },
                { value: 'provider', title: 'A provider' },
                { value: 'model', title: 'A model' },
              ]}
              onChange={setScope}
            />
          )}
          <SubjectField scope={scope} value={subject} onInput={setSubject} />
          <PeriodField value={period} choices={limitPeriods} onChange={setPeriod} parameter="limit_key.period" />
        </>
      )}
      <MaximumField parameter="max_requests" label="Most requests" value={requests} onInput={setRequests} />
      {!isConcurrent && <MaximumField parameter="max_tokens" label="Most tokens" value={tokens} onInput={setTokens} />}
      <p>At least one of the two is required; an empty one does not limit. The counts of the window stay.</p>
    </ChangeDialog>
  );
}

function maximaOf(requests: string, tokens: string): { max_requests?: number; max_tokens?: number } {
  return {
    ...(requests.trim() === '' ? {} : { max_requests: Number(requests) }),
    ...(tokens.trim() === '' ? {} : { max_tokens: Number(tokens) }),
  };
}

interface ValueProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
}

const subjects = {
  user_path: { label: 'User path', placeholder: '/team/alpha' },
  provider: { label: 'Provider', placeholder: 'openai' },
  model: { label: 'Model', placeholder: 'openai/gpt-5-mini, or gpt-5-mini of any provider' },
} as const;

function SubjectField({ scope, value, onInput }: ValueProps & { readonly scope: LimitRow['scope'] }) {
  const ofPath = useProblem('user_path');
  const ofSubject = useProblem('subject');
  return <TextField {...subjects[scope]} {...{ value, onInput }} problem={ofSubject ?? ofPath} required />;
}

function MaximumField({ parameter, ...props }: ValueProps & { readonly parameter: string; readonly label: string }) {
  return <TextField {...props} type="number" problem={useProblem(parameter)} />;
}
