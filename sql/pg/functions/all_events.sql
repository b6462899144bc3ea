-- all_events: the log as people and functions see it, with the defaults that the table leaves NULL
-- filled in.  The read functions return rows of this shape.
CREATE OR REPLACE VIEW @schema@.all_events AS
SELECT e.global_sequence,
       e.id,
       e.stream,
       e.version,
       e.type,
       e.data,
       e.bytes,
       e.content_type,
       e.headers,
       e.correlation_id,
       e.causation_id,
       e.actor,
       coalesce(e.valid_time, e.recorded_at) AS valid_time,
       e.recorded_at,
       coalesce(e.family, e.id) AS family,
       e.revision,
       e.corrects,
       e.reason,
       e.schema_version,
       coalesce(e.retracts, false) AS retracts,
       e.purge IS NOT NULL AS purged
FROM @schema@.events AS e;
