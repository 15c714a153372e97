-- Nodes are listed by name as well as in the order of the tree.
--
-- holds up writes: two indexes over nodes, of which the largest hierarchies have some ten thousands.

create index node_by_name on universe.node (tenant_id, hierarchy_id, name, id);
create index node_history_by_name on universe.node_history (tenant_id, hierarchy_id, name, node_id);
