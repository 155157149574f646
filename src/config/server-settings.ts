/** How clients reach the server: through which proxies, and with which certificate. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Problem, RawSettings } from './problem.ts';
import type { FileSettings } from './schema.ts';

type ServerSettings = FileSettings['server'];

export function proxyConfig({ trusted_proxies, client_address_header, proxy_protocol }: ServerSettings) {
  return {
    proxies: {
      /** Networks whose headers state the client. */
      networks: trusted_proxies.filter((network) => network !== 'unix'),
      /** Whether peers of a Unix socket do. */
      local: trusted_proxies.includes('unix'),
      header: client_address_header.toLowerCase(),
    },
    /** Whether their connections begin with a header of the PROXY protocol. */
    proxyProtocol: proxy_protocol,
  };
}

/** Paths are absolute. Undefined: no TLS. */
export function tlsConfig({ tls }: ServerSettings, cwd: string) {
  const { cert_file: cert, key_file: key, client_ca_file: ca, client_auth: clientAuth } = tls;
  if (cert === undefined || key === undefined) return undefined;
  const clientCaFile = ca === undefined ? undefined : resolve(cwd, ca);
  return { certFile: resolve(cwd, cert), keyFile: resolve(cwd, key), clientCaFile, clientAuth };
}

/** Settings that need another one. */
export function serverProblems({ proxy_protocol, trusted_proxies, tls }: ServerSettings, raw: RawSettings): Problem[] {
  const { cert_file: cert, key_file: key, client_ca_file: ca, client_auth: auth } = tls;
  if (proxy_protocol && trusted_proxies.length === 0) {
    const message = 'the PROXY protocol is read from trusted proxies only, and TRUSTED_PROXIES names none';
    return [raw.problem('server.proxy_protocol', 'PROXY_PROTOCOL', message)];
  }
  if (cert === undefined && key !== undefined) {
    return [raw.problem('server.tls.cert_file', 'TLS_CERT_FILE', 'the key in TLS_KEY_FILE needs a certificate')];
  }
  if (cert !== undefined && key === undefined) {
    return [raw.problem('server.tls.key_file', 'TLS_KEY_FILE', 'the certificate in TLS_CERT_FILE needs its key')];
  }
  if (ca !== undefined && cert === undefined) {
    return [
      raw.problem(
        'server.tls.client_ca_file',
        'TLS_CLIENT_CA_FILE',
        'clients have certificates only with TLS: set TLS_CERT_FILE',
      ),
    ];
  }
  if (auth === 'required' && ca === undefined) {
    return [
      raw.problem('server.tls.client_auth', 'TLS_CLIENT_AUTH', 'certificates of clients need TLS_CLIENT_CA_FILE'),
    ];
  }
  return [];
}

/** What is wrong with the files that the server reads at its start. */
export function fileProblems(tls: ReturnType<typeof tlsConfig>, raw: RawSettings): Problem[] {
  if (tls === undefined) return [];
  const { certFile, keyFile, clientCaFile } = tls;
  const wrong = (key: string, variable: string, file: string, error: unknown) => [
    raw.problem(
      `server.tls.${key}`,
      variable,
      `${file} cannot be used: ${error instanceof Error ? error.message : error}`,
    ),
  ];
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(readFileSync(certFile));
  } catch (error) {
    return wrong('cert_file', 'TLS_CERT_FILE', certFile, error);
  }
  try {
    const key = createPrivateKey(readFileSync(keyFile));
    if (!certificate.checkPrivateKey(key)) throw new Error('it is not the key of the certificate in TLS_CERT_FILE');
  } catch (error) {
    return wrong('key_file', 'TLS_KEY_FILE', keyFile, error);
  }
  try {
    if (clientCaFile !== undefined) new X509Certificate(readFileSync(clientCaFile));
  } catch (error) {
    return wrong('client_ca_file', 'TLS_CLIENT_CA_FILE', clientCaFile ?? '', error);
  }
  return [];
}
