/** `fetch` over connections that begin as those of a proxy: with a header of the PROXY protocol that states no client. */
import { connect } from 'node:net';
import { connect as connectTls, type SecureContextOptions } from 'node:tls';
import { Agent, fetch } from 'undici';
import { MASTER_KEY } from './gateway.ts';

/** @param tls undefined: the connections have no TLS */
export function fetchViaProxy(url: string, tls?: SecureContextOptions) {
  const dispatcher = new Agent({
    connect(_, callback) {
      const raw = connect(Number(new URL(url).port), '127.0.0.1');
      raw.write('PROXY UNKNOWN\r\n');
      if (tls === undefined) raw.once('connect', () => callback(null, raw));
      else {
        const socket = connectTls({ socket: raw, ...tls, servername: 'localhost' }, () => callback(null, socket));
      }
    },
  });
  return (path: string, init: RequestInit = {}): Promise<Response> => {
    const options = { ...init, headers: { authorization: `Bearer ${MASTER_KEY}` }, dispatcher };
    return fetch(`${url}${path}`, options as never) as unknown as Promise<Response>;
  };
}
