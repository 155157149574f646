import { useEffect, useState } from 'preact/hooks';
import { getAnswer } from '../api/client.ts';
import { sessionKey } from '../api/session-key.ts';
import { gatewayUrl } from '../app/base-path.ts';
import { CodeBlock } from './code-block.tsx';

/** A request that works as it is shown: with this gateway's address and one of its models. */
export function FirstRequest() {
  const [model, setModel] = useState('MODEL');
  useEffect(() => {
    const leaving = new AbortController();
    getAnswer('/v1/models', { signal: leaving.signal }).then(
      ({ data }) => setModel((before) => data?.[0]?.id ?? before),
      () => {},
    );
    return () => leaving.abort();
  }, []);
  const key = sessionKey.value === '' ? '' : ` \\\n  -H "Authorization: Bearer $GATEWAY_KEY"`;
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] });
  const command = `curl ${gatewayUrl}/v1/chat/completions${key} \\
  -H 'Content-Type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'`;
  return (
    <>
      <p>
        Send a request. <code>GATEWAY_KEY</code> is the key that you entered here, or any other key of this gateway.
      </p>
      <CodeBlock text={command} label="Request with curl" />
    </>
  );
}
