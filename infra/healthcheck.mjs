/** The health check of the image: exits with 0 while the gateway on this machine answers `GET /health` with 200. */
import { get } from 'node:http';
import { get as getSecurely } from 'node:https';

const { PORT = '8080', BASE_PATH = '', TLS_CERT_FILE } = process.env;
const path = `${BASE_PATH.replace(/\/$/, '')}/health`;
const options = { host: '127.0.0.1', port: PORT, path, timeout: 3000, rejectUnauthorized: false };
const request = (TLS_CERT_FILE ? getSecurely : get)(options, ({ statusCode }) =>
  process.exit(statusCode === 200 ? 0 : 1),
);
request.on('timeout', () => request.destroy()).on('error', () => process.exit(1));
