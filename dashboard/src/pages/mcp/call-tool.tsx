import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { hrefOf } from '../../app/router.ts';
import { SafeText } from '../../content/text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/fields.tsx';
import type { FormValue } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import { JsonInput } from '../../ui/schema-inputs.tsx';
import { ErrorPanel } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { useChange } from '../../ui/use-change.ts';
import { type McpTool, serverPath } from './server-state.ts';
import { fieldsOfSchema, initialArguments } from './tool-form.ts';

interface CallToolProps {
  readonly slug: string;
  readonly tool: McpTool;
}

type Result = Awaited<ReturnType<typeof sendCall>>;

function sendCall(slug: string, tool: string, given: FormValue, userPath: string) {
  return sendChange({
    ...{ method: 'POST', of: '/admin/mcp-servers/{slug}/tools/{name}/call' },
    at: `${serverPath(slug)}/tools/${encodeURIComponent(tool)}/call`,
    json: { arguments: given, ...(userPath === '' ? {} : { user_path: userPath }) },
  });
}

/** Calls one tool, with fields for its arguments where its schema allows, else with JSON. The call is recorded. */
export function CallTool({ slug, tool }: CallToolProps) {
  const fields = fieldsOfSchema(tool.input_schema);
  const [given, setGiven] = useState<FormValue>(() => initialArguments(tool.input_schema));
  const [userPath, setUserPath] = useState('');
  const [result, setResult] = useState<Result | undefined>(undefined);
  const { error, isSending, send } = useChange(() => {});
  return (
    <form
      class="mcp-call"
      aria-label={`Call ${tool.name}`}
      onSubmit={(event) => {
        event.preventDefault();
        setResult(undefined);
        send(async () => setResult(await sendCall(slug, tool.name, given, userPath)));
      }}
    >
      {fields === undefined ? (
        <JsonInput
          label="Arguments"
          value={given}
          onChange={(value) => setGiven(typeof value === 'object' && value !== null ? (value as FormValue) : {})}
        />
      ) : (
        <SchemaForm fields={fields} value={given} onChange={setGiven} />
      )}
      <TextField
        label="User path of the call"
        help="Its budgets and limits apply. Default: yours."
        value={userPath}
        placeholder="/team/alpha"
        onInput={setUserPath}
      />
      <div class="mcp-actions">
        <Button type="submit" look="main" disabled={isSending}>
          {isSending ? 'Waiting for the tool' : 'Call the tool'}
        </Button>
      </div>
      {error !== undefined && <ErrorPanel error={error} />}
      <div role="status">{result !== undefined && <ResultView result={result} />}</div>
    </form>
  );
}

function ResultView({ result }: { readonly result: Result }) {
  const { content, structured_content, is_error, exchange_id } = result;
  return (
    <section class="mcp-result" aria-label="Result">
      <p>
        <Badge tone={is_error ? 'bad' : 'ok'}>{is_error ? 'the tool failed' : 'answered'}</Badge>{' '}
        {exchange_id !== undefined && <a href={hrefOf(`/exchange/${exchange_id}`)}>Record of the call</a>}
      </p>
      {content.map((part, at) => (
        // Parts have no ids.
        <SafeText key={at} {...partText(part)} />
      ))}
      {structured_content !== undefined && (
        <SafeText text={JSON.stringify(structured_content, undefined, 2)} look="code" />
      )}
    </section>
  );
}

/** The text of a part; other parts as JSON. */
function partText(part: unknown): { text: string; look: 'text' | 'code' } {
  const { type, text } = (typeof part === 'object' && part !== null ? part : {}) as { type?: unknown; text?: unknown };
  if (type === 'text' && typeof text === 'string') return { text, look: 'text' };
  return { text: JSON.stringify(part, undefined, 2), look: 'code' };
}
