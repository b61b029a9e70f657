/**
 * The answers of `GET {base}/ec2spawner/api/status`, `history` and `cluster`, and what comes on the event
 * websocket, as `ec2spawner/wire` defines them.
 *
 * Instants are ISO 8601 in UTC; durations are seconds; prices are USD/hour; memory is MiB;
 * shares of a whole are percent, 0-100. `null` is unknown, never zero.
 */

export type * from './cluster.js';
export type * from './cost.js';
export type * from './idle.js';
export type * from './runs.js';
export type * from './sentence.js';
export type * from './sleep.js';
export type * from './status.js';
export type * from './stop.js';
export type * from './telemetry.js';
