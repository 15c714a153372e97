-- A few levels of a large tree, and what differs between two versions of it, are read in their order and no further.

-- Serve the levels of a tree, each in the order of the paths.
create index entity_path_by_depth on universe.entity_path (tenant_id, depth, path);
create index node_by_depth on universe.node (tenant_id, hierarchy_id, depth, path);
create index node_history_by_depth on universe.node_history (tenant_id, hierarchy_id, depth, path);

-- Serve the difference of two versions, page by page.
create index node_by_change on universe.node (tenant_id, hierarchy_id, since_version, id);
drop index universe.node_by_since_version;
create index node_history_by_change on universe.node_history (tenant_id, hierarchy_id, since_version, node_id);
drop index universe.node_history_by_since_version;
