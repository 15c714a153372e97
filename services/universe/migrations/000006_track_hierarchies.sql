-- Hierarchies, their nodes, test procedures and people in the change feed. What is there already is no change.

call tenancy.track_changes('universe.hierarchy', 'hierarchy');
call tenancy.track_changes('universe.node', 'hierarchy_node');
call tenancy.track_changes('universe.test_procedure', 'test_procedure');
call tenancy.track_changes('universe.person', 'person');
